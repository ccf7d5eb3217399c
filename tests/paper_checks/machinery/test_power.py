"""The power of checks: numbers of mutants, and where they are shown."""

import csv
import io
import math

import pytest

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery import ledger, report
from corrnoise.paper_checks.machinery.power import Power, Ratios, moved, powers, ratio, written
from corrnoise.paper_checks.machinery.records import outcome_record
from corrnoise.paper_checks.machinery.wording import check
from tests.small_claims import claim as small_claim


def test_rates_are_of_the_mutants_that_tell_and_of_those_drawn():
    power = Power(killed=6, alive=2, weaker=5, equal=4, undefined=3, of=40, ratios=Ratios(0.5))
    assert (power.drawn, power.telling, power.kill_rate, power.blindness) == (20, 8, 0.75, 0.35)
    assert power + power == Power(12, 4, 10, 8, 6, 80)
    assert str(Power(killed=4, alive=6)) == "of 10 telling mutants 4 killed (40%); blindness 0%"
    blind = Power(weaker=1, equal=3, of=9)
    assert (blind.kill_rate, blind.blindness, str(blind)) == (None, 0.75, "no telling mutant among 4")
    assert (Power().kill_rate, Power().blindness) == (None, None)


def test_numbers_are_read_as_they_are_written(monkeypatch, tmp_path):
    ratios = Ratios(0.25, 0.01, (0.25, 0.2), (0.125, 1.2346e-07))
    found = {"a": Power(1, 2, 3, 4, 5, 70, ratios), "b": Power(of=7)}
    (tmp_path / "mutants.csv").write_text(written(found), encoding="utf-8")
    monkeypatch.setattr("corrnoise.paper_checks.machinery.power.files", lambda _: tmp_path)
    assert powers.__wrapped__() == found


def test_the_power_of_a_claim_is_shown_and_in_the_record():
    [listed] = ledgers.claims("correlated-noise", name="Lemma F.15")
    outcome = listed.check()
    power = powers()[listed.identifier]
    assert ("power", str(power)) in check(outcome)
    record = outcome_record(outcome)["power"]
    assert (record["telling"], record["kill_rate"]) == (power.telling, power.kill_rate)
    assert (record["blindness"], record["killed"]) == (power.blindness, power.killed)


@pytest.mark.parametrize(
    ("margin", "ratio", "spread", "thorough", "expected"),
    [
        (0.5, 0.5, 0.0, False, False),
        (0.499, 0.5, 0.0, False, False),
        (0.498, 0.5, 0.0, False, True),
        (0.49, 0.5, 0.01, False, False),
        (0.48, 0.5, 0.01, False, True),
        (0.486, 0.5, 0.1, False, False),
        (0.486, 0.5, 0.0134, False, False),
        (0.4, 0.5, 0.0136, False, False),  # it cannot be found again
        (0.498, 0.5, 0.0, True, False),  # a longer search may find a larger ratio, but none that is smaller
        (0.502, 0.5, 0.0, True, True),
        (1.5, -0.5, 0.0, False, False),
        (1.498, -0.5, 0.0, False, True),
        (1.0, 0.0, 0.0, False, False),
        (0.9999, 0.0, 0.0, False, True),
        (1 - 1.002e-5, 1e-5, 0.0, False, False),
        (1 - 1.004e-5, 1e-5, 0.0, False, True),
        (math.nan, 0.5, 0.0, False, True),
    ],
)
def test_a_ratio_that_moves_is_noticed(margin, ratio, spread, thorough, expected):
    assert bool(moved(margin, (), (), Ratios(ratio, spread), thorough)) == expected
    assert not moved(margin, (), (), None)


@pytest.mark.parametrize(
    ("margins", "expected"),
    [
        ((0.6, 0.9), ""),
        ((0.6, 0.8998), ""),
        ((0.6, 0.8996), "ratio of the sides in one case is 0.1004, recorded is 0.1"),
        ((0.6, 0.9004), "ratio of the sides in one case is 0.0996, recorded is 0.1"),
        ((0.6,), "there are 1 cases, recorded are 2"),
    ],
)
def test_a_ratio_that_moves_in_one_case_is_noticed_whatever_the_spread(margins, expected):
    """A longer search has another first sample, which is not compared."""
    known = Ratios(0.5, 0.2, in_cases=(0.4, 0.1), medians=(0.4, 0.1))
    for found in ((margins, (0.6, 0.9)), ((0.6, 0.9), margins)):
        assert expected in moved(0.5, *found, known)
        assert bool(moved(0.5, *found, known)) == bool(expected)
        assert not moved(0.5, *found, known, thorough=True)


def test_ratios_are_recorded_to_five_digits():
    assert ratio(1 / 3) == 0.66667
    assert ratio(1 - 1.23456789e-7) == 1.2346e-07


def test_a_check_compares_the_recorded_ratios(monkeypatch):
    loose = small_claim(lambda x, c=1.0: ([0.25 * (1 + x) ** 2, 0], [c * (1 + x), 1]), mutants=[{"c": 0.2}])
    found = loose.checked(None)
    assert found.smallest == (0.5, 1.0)
    assert found.medians == pytest.approx((0.625, 1.0), abs=0.01)
    median = ratio(found.medians[0])
    for recorded, reason in (
        (Ratios(0.5, 0.0, (0.5, 0.0), (median, 0.0)), ""),
        (
            Ratios(0.3, 0.0, (0.5, 0.0), (median, 0.0)),
            "the record moved: the largest ratio of the sides is 0.5, recorded is 0.3",
        ),
        (
            Ratios(0.5, 0.0, (0.5, 0.1), (median, 0.0)),
            "the record moved: the largest ratio of the sides in one case is 0, recorded is 0.1",
        ),
        (
            Ratios(0.5, 0.0, (0.5, 0.0), (0.3, 0.0)),
            f"the record moved: the median ratio of the sides in one case is {median:.4g}, recorded is 0.3",
        ),
    ):
        monkeypatch.setattr(ledger, "powers", lambda r=recorded: {loose.identifier: Power(ratios=r)})
        assert loose.check().reason == reason
    assert loose.check(thorough=True).agrees  # another sample has another median


@pytest.mark.parametrize("name", ledgers.NAMES)
def test_the_page_has_the_sums_of_each_paper(name):
    paper = ledgers.paper_ledger(name)
    head, row = report._mutants([paper])
    rows = csv.DictReader(io.StringIO(written(powers())))
    own = [one for one in rows if one["claim"] in {listed.identifier for listed in paper.listed}]
    sums = {column: sum(int(one[column]) for one in own) for column in head[2:-1]}
    assert dict(zip(head[2:], row[2:-1], strict=False)) == {column: str(count) for column, count in sums.items()}
    assert row[:2] == [name, str(len(own))]
    assert row[-1] == f"{sums['killed'] / (sums['killed'] + sums['alive']):.1%}"
