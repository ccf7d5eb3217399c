"""The four papers: the results of each paper, under one name.

``correlated_noise``
    Choquette-Choo et al., arXiv 2310.06771.
``shuffled_gradients``
    Jiang, Sharma, Wu, Joshi, arXiv 2502.03652.
``momentum_aggregation``
    Tran and Cutkosky, NeurIPS 2022.
``noise_cancellation``
    Reshef and Levy, ICML 2025.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, ["correlated_noise", "momentum_aggregation", "noise_cancellation", "shuffled_gradients"]
)
