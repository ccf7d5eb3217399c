import pytest

from corrnoise.theory.participation import Participation
from tools import golden


@pytest.fixture
def few(monkeypatch):
    """The cheapest groups alone."""
    monkeypatch.setattr(golden, "GROUPS", {group: golden.GROUPS[group] for group in ("relations", "batches")})


def test_the_digest_repeats(few):
    assert golden.digests() == golden.digests()


def test_a_change_shows_in_its_group_alone(few, monkeypatch):
    before = golden.digests()
    covered = Participation.covered_by
    monkeypatch.setattr(Participation, "covered_by", lambda self, other: covered(other, self))
    after = golden.digests()
    assert {group for group in before if before[group] != after[group]} == {"relations", "all"}
