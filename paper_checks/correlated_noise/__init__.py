"""The ledger of Choquette-Choo et al., *Correlated Noise Provably Beats Independent Noise* (arXiv 2310.06771)."""

from corrnoise.paper_checks.correlated_noise import (
    appendix_c1,
    appendix_c4,
    appendix_c5,
    appendix_d1,
    appendix_d3,
    appendix_e,
    appendix_f,
    appendix_f5,
    figure_captions,
    main_text,
    tables,
)
from corrnoise.paper_checks.correlated_noise.paper import NUMBERS, PAPER

SECTIONS = (
    main_text,
    tables,
    figure_captions,
    appendix_c1,
    appendix_c4,
    appendix_c5,
    appendix_d1,
    appendix_d3,
    appendix_e,
    appendix_f,
    appendix_f5,
)

PAPER.arrange(SECTIONS)

__all__ = ["NUMBERS", "PAPER", "SECTIONS"]
