"""Releases: files are lossless, claims are never too good, and the factor of 2 of replace-one is in the event."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.designs.release import Release
from corrnoise.support.serialise import digest
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import gaussian_epsilon
from tests.strategies import log_uniform, mechanisms, participations

ADJACENCY = st.sampled_from(["zero-out", "replace-one"])


@settings(max_examples=60, deadline=None)
@given(participations(), log_uniform(1e-3, 1e3), ADJACENCY, st.data())
def test_files_are_lossless(who, rho, adjacency, data):
    run = data.draw(mechanisms(who.steps))
    release = Release.for_budget(run, who, rho=rho, adjacency=adjacency)
    assert Release.from_json(release.json()) == release
    with tempfile.TemporaryDirectory() as folder:
        for name in ("release.json", "release.npz"):
            read = Release.load(release.save(Path(folder, name)))
            assert read == release
            np.testing.assert_array_equal(read.mechanism.noising_matrix(), run.noising_matrix())
            assert read.rho == release.rho


@settings(max_examples=60, deadline=None)
@given(participations(), log_uniform(1e-3, 1e3), ADJACENCY, st.data())
def test_the_budget_is_used_and_not_exceeded(who, rho, adjacency, data):
    release = Release.for_budget(data.draw(mechanisms(who.steps)), who, rho=rho, adjacency=adjacency)
    assert release.rho == pytest.approx(rho, rel=1e-12)
    gamma = release.mechanism.sensitivity_upper_bound(who) * (2 if adjacency == "replace-one" else 1)
    assert release.rho >= gamma**2 / (2 * release.noise_multiplier**2)
    assert release.event_multiplier <= release.noise_multiplier / gamma
    assert release.event_multiplier == pytest.approx(release.noise_multiplier / gamma, rel=1e-12)


def example(adjacency="zero-out"):
    who = Participation.min_sep(40, 10, 4)
    return Release.for_budget(NuFTRL(0.01), who, rho=0.5, adjacency=adjacency)


def test_the_event_of_dp_accounting():
    """The same ε for both adjacencies at one budget; without the factor of 2 replace-one would seem more private."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    found = {}
    for adjacency in ("zero-out", "replace-one"):
        release = example(adjacency)
        found[adjacency] = PLDAccountant().compose(release.event()).get_epsilon(1e-6)
        assert found[adjacency] == pytest.approx(release.epsilon(1e-6), rel=1e-3)
    assert found["zero-out"] == pytest.approx(found["replace-one"], rel=1e-9)
    assert example("replace-one").noise_multiplier == pytest.approx(2 * example().noise_multiplier, rel=1e-12)
    forgotten = Release(example().mechanism, example().participation, example().noise_multiplier, "replace-one")
    assert forgotten.epsilon(1e-6) > 2 * found["zero-out"]
    assert forgotten.epsilon(1e-6) == gaussian_epsilon(forgotten.rho, 1e-6)


@pytest.mark.parametrize(("field", "value"), [("noise_multiplier", 1.0), ("rho", 0.1), ("adjacency", "replace-one")])
def test_claims_that_are_too_good_are_refused(field, value):
    """Also where the checksum fits: the sensitivity is computed again."""
    described = json.loads(example().json())
    described.pop("checksum")
    described[field] = value
    with pytest.raises(ValueError, match="rho must be at least"):
        Release.from_json(json.dumps({**described, "checksum": digest(described)}))


def test_damaged_files_are_refused(tmp_path):
    text = example().json()
    with pytest.raises(ValueError, match="wrong checksum"):
        Release.from_json(text.replace("0.01", "0.02"))
    with pytest.raises(ValueError, match=r"Release\.json"):
        Release.from_json("{}")
    with pytest.raises(ValueError, match=r"Release\.json"):
        Release.from_json("no JSON")
    run = MatrixNoise(np.tril(np.ones((4, 4))))
    file = Release.for_budget(run, Participation(4), rho=1.0).save(tmp_path / "release.npz")
    with np.load(file) as entries:
        arrays = dict(entries)
    arrays["mechanism.strategy"] = 2 * arrays["mechanism.strategy"]
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match="wrong checksum"):
        Release.load(file)
    file.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="damaged"):
        Release.load(file)


def test_long_arrays_are_arrays(tmp_path):
    who = Participation(3000)
    run = ScaledNoise(optimal_buffers(who).noise, np.linspace(1.0, 2.0, 3000))
    file = Release.for_budget(run, who, rho=0.5).save(tmp_path / "release.npz")
    with np.load(file) as entries:
        np.testing.assert_array_equal(entries["mechanism.scales"], run.scales)
    assert Release.load(file).mechanism == run


class Own(Mechanism):
    """A mechanism of the user's own."""

    steps = 3
    memory = 0

    def correlate(self, draws):
        return draws

    def strategy(self):
        return np.eye(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DPSGD(), Participation(4), 1.0), "steps=3"),
        ((DPSGD(), Participation(3), 0.0), "noise_multiplier"),
        ((DPSGD(), Participation(3), 1.0, "add-remove"), "adjacency"),
        ((Own(), Participation(3), 1.0), "mechanism must be one of"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        Release(*arguments)


def test_bad_names_of_files():
    with pytest.raises(ValueError, match=r"'\.json' or '\.npz'"):
        example().save("release.txt")
    with pytest.raises(TypeError, match="path"):
        Release.load(3)
