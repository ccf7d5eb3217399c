"""Golden numbers: results from before the vocabulary was made one, which must stay.

``golden/numbers.json`` holds {group: {key: value}}; a key is an expression in the names below.  The numbers keep moves
of code from changing results; no theorem stands behind them, and other tests show that they are right.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.solvers.rational.stand_in import rational
from corrnoise.theory import privacy
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.objectives.workloads import MomentumSGD
from corrnoise.theory.participation import ANY_LENGTH, Participation

NUMBERS = json.loads((Path(__file__).parent / "golden" / "numbers.json").read_text(encoding="utf-8"))
_TWO = BufferNoise([0.9772416438135043, 0.5907152780776496], [0.24424441596168062, 0.26025648677781216])
_NAMES: dict[str, Any] = {
    **vars(privacy),
    **KINDS,
    "Participation": Participation,
    "ANY_LENGTH": ANY_LENGTH,
    "SINGLE": Participation.single(400),
    "MIN_SEP": Participation.min_sep(400, 100),
    "FIXED": Participation.fixed_epochs(400, epochs=4),
    "SHORT_SINGLE": Participation.single(64),
    "SHORT_MIN_SEP": Participation.min_sep(64, 16),
    "SHORT_FIXED": Participation.fixed_epochs(64, epochs=4),
    "MOMENTUM": MomentumSGD(400, momentum=0.9),
    "TWO_BUFFERS": PoleNoise(_TWO.zeros, _TWO.poles),  # the best ones for the mean error of prefix sums under MIN_SEP
    "SHARES": [0.4, 0.3, 0.2, 0.1],
    "FACTORS": np.linspace(1, 2, 400),
    "BANDS": np.stack([np.linspace(1, 2, 64), np.r_[np.full(63, -0.5), 0]]),
    "DENSE": np.tril(np.random.default_rng(0).normal(size=(64, 64))) * 0.2 + np.eye(64),
    "mean_and_max": lambda errors: [errors.mean(), errors.max()],
    "ends": lambda mechanism, who: [mechanism.bracket(who).value, mechanism.bracket(who).upper],
    "runnable": lambda noise: noise if noise.forms() else rational(noise, 1e-3),
}


def expression(key: str) -> Any:
    """The value of a key that is an expression."""
    return eval(key, _NAMES)


#: Relative tolerance of each group; 0 is bitwise.
GROUPS = {"accounting": 0.0, "toeplitz": 1e-11, "mechanisms": 1e-11, "tree": 1e-9, "covered": 0.0}
#: Tolerances of keys with these words: fitted or rounded buffers, dense algebra, transforms, bounds of rounding errors.
_NOT_BITWISE = {
    "runnable": 1e-12,
    "TWO_BUFFERS": 1e-11,
    "MatrixNoise": 1e-11,
    "Cepstral": 1e-11,
    "ScaledNoise": 1e-14,
    "ANY_LENGTH": 1e-14,
}


@pytest.mark.parametrize(("group", "key"), [(group, key) for group in GROUPS for key in NUMBERS[group]])
def test_numbers_have_not_changed(group, key):
    tolerance = max(GROUPS[group], *(least for word, least in _NOT_BITWISE.items() if word in key), 0.0)
    exact = [float(x) for x in np.ravel(NUMBERS[group][key])]
    assert np.ravel(expression(key)).tolist() == (pytest.approx(exact, rel=tolerance, abs=0.0) if tolerance else exact)


def test_a_change_is_noticed():
    assert expression("NuFTRL(0.01 + 1e-9).limiting_sensitivity()") != pytest.approx(
        NUMBERS["toeplitz"]["NuFTRL(0.01).limiting_sensitivity()"], rel=1e-11
    )
    assert set(GROUPS) == set(NUMBERS)
