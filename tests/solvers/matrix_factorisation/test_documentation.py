"""``docs/toeplitz-mechanisms.md``: the numbers of its table are right."""

import re
from pathlib import Path

import pytest

from corrnoise.solvers.matrix_factorisation import families
from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers
from corrnoise.solvers.matrix_factorisation.toeplitz import optimal_toeplitz
from corrnoise.theory.participation import Participation

TEXT = (Path(__file__).parents[3] / "docs/toeplitz-mechanisms.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("participations", "column"), [(1, 1), (4, 3)])
def test_the_table(participations, column):
    who = Participation.min_sep(1024, 1024 // participations, participations)
    bands = who.period if participations > 1 else 1024
    found = {
        "`optimal_toeplitz`, as many bands as possible": optimal_toeplitz(who, bands=bands, certify=False),
        "`banded_square_root`, as many bands": families.banded_square_root(who, bands=bands),
        "`optimal_buffers`": optimal_buffers(who),
        "`optimal_banded_inverse`, 16 coefficients": families.optimal_banded_inverse(who, bands=16),
        "`optimal_nu`": families.optimal_nu(who),
        "`optimal_damped_root`, 16 coefficients": families.optimal_damped_root(who, bands=16),
        "`optimal_damping`": families.optimal_damping(who),
        "independent noise": optimal_toeplitz(who, bands=1, certify=False),
    }
    rows = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if re.match(r"\| [`i]", line)]
    table = {row[0]: row[column : column + 2] for row in rows}
    assert table == {name: [str(one.memory), f"{one.error:.4f}"] for name, one in found.items()}
    percent = 100 * (
        found["`optimal_buffers`"].error / found["`optimal_toeplitz`, as many bands as possible"].error - 1
    )
    assert percent == pytest.approx(0.0255 if participations == 1 else 3.488, rel=1e-2)
