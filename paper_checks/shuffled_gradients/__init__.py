"""The ledger of Jiang, Sharma, Wu and Joshi on private shuffled gradient methods (arXiv 2502.03652)."""
