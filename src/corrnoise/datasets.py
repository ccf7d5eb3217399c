"""Data sets by name: tables of features and targets, bundled with scikit-learn or fetched from OpenML."""

from corrnoise.simulations.datasets import DATA_SETS, Table, load, standardised

__all__ = ["DATA_SETS", "Table", "load", "standardised"]
