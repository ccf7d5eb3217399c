"""A statistic with its p-value, which is exact or too large where the claim is true."""

from __future__ import annotations

import math
from typing import NamedTuple


class Evidence(NamedTuple):
    """A statistic, its p-value, and where it was found, such as the step.

    A p-value that is not a number counts as 0, since no statistic of noise as claimed is undefined.
    """

    statistic: float
    p: float
    where: str = ""

    def among(self, number: int) -> Evidence:
        """The evidence of the most extreme of ``number`` statistics, by the union bound."""
        return self._replace(p=min(1.0, self.p * number))


def evidence(statistic: object, p: object, where: str = "") -> Evidence:
    """Evidence from numbers of any type."""
    value = float(p)  # type: ignore[arg-type]
    return Evidence(float(statistic), 0.0 if math.isnan(value) else min(1.0, max(0.0, value)), where)  # type: ignore[arg-type]
