"""The data sets of private momentum: features on the unit sphere, labels ±1.

A data set becomes examples a = y x: its features standardised, a constant appended, rows scaled to length 1, times the
label ±1.  Means and spreads of the features are taken from the data, which no accountant covers: for a release they
must be public.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.datasets import DATA_SETS, load, standardised
from corrnoise.theory.losses import EmpiricalRisk, MarginLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors

REGULARISATION = 0.02

#: The data sets that are used, and which of their targets have the label 1.
LABELS: dict[str, Callable[[NDArray[Any]], NDArray[np.bool_]]] = {
    "breast cancer": lambda targets: targets == 1,  # benign
    "digits": lambda targets: targets >= 5,
    "MNIST": lambda targets: targets.astype(int) >= 5,
    "electricity": lambda targets: targets == "UP",  # the price
    "MAGIC telescope": lambda targets: targets == "g",  # gamma rays
}
BUNDLED = tuple(name for name in LABELS if not DATA_SETS[name].downloaded)


def examples(name: str, *, download: bool = False) -> Array:
    """The examples a = y x of a data set of ``LABELS``, shape (N, features), each of norm 1."""
    checks.choice("name", name, tuple(LABELS))
    features, targets, _ = load(name, download=download)
    positive = LABELS[name](targets)
    if positive.all() or not positive.any():
        raise ValueError(f"the labels of {name!r} must be of two kinds, got one: {DATA_SETS[name].source} has changed")
    rows = np.column_stack([standardised(features), np.ones(len(features))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.where(positive, 1.0, -1.0)[:, np.newaxis] * rows)


@usual_float_errors
def momentum_risk(name: str, *, download: bool = False) -> EmpiricalRisk:
    """The sigmoid risk of a linear classifier on a data set; its regulariser keeps minima finite.

    Parameters
    ----------
    name : str
        A data set of the experiments, such as ``"breast cancer"``.
    download : bool, default False
        Whether a data set may be fetched from OpenML.

    Returns
    -------
    EmpiricalRisk

    Examples
    --------
    >>> import numpy as np
    >>> from corrnoise.papers.momentum_aggregation import momentum_risk
    >>> risk = momentum_risk("breast cancer")
    >>> risk.examples.shape, round(float(np.linalg.norm(risk.gradients(np.zeros(31)))), 4)
    ((569, 31), 0.1364)
    """
    rows = examples(name, download=download)
    return EmpiricalRisk(MarginLoss("sigmoid", rows.shape[1], 1.0), rows, REGULARISATION)
