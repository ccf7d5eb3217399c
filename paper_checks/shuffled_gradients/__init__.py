"""The ledger of Jiang, Sharma, Wu and Joshi on private shuffled gradient methods (arXiv 2502.03652)."""

from corrnoise.paper_checks.shuffled_gradients import appendix_g, convergence, epochs, main_text, privacy
from corrnoise.paper_checks.shuffled_gradients.paper import NUMBERS, PAPER

SECTIONS = (main_text, privacy, epochs, convergence, appendix_g)

PAPER.arrange(SECTIONS)

__all__ = ["NUMBERS", "PAPER", "SECTIONS"]
