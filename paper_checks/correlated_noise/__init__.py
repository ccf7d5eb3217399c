"""The ledger of Choquette-Choo et al., *Correlated Noise Provably Beats Independent Noise* (arXiv 2310.06771)."""
