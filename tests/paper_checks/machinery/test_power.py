"""The power of checks: numbers of mutants, and where they are shown."""

import csv
import io
import math

import pytest

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery import ledger, report
from corrnoise.paper_checks.machinery.power import Power, has_moved, largest_ratio, powers, written
from corrnoise.paper_checks.machinery.records import outcome_record
from corrnoise.paper_checks.machinery.wording import check
from tests.small_claims import claim as small_claim


def test_rates_are_of_the_mutants_that_tell_and_of_those_drawn():
    power = Power(killed=6, survived=2, weaker=5, equal=4, undefined=3, of=40, ratio=0.5)
    assert (power.drawn, power.telling) == (20, 8)
    assert (power.kill_rate, power.found_rate, power.blindness) == (0.75, 0.75, 0.35)
    assert power + power == Power(12, 0, 0, 4, 10, 8, 6, 80)
    noticed = Power(killed=4, noticed=1, elsewhere=1, survived=2)
    assert (noticed.telling, noticed.kill_rate, noticed.found_rate) == (8, 0.5, 0.75)
    assert str(noticed) == "of 8 telling mutants 4 killed (50%), 6 killed or noticed (75%); blindness 0%"
    blind = Power(weaker=1, equal=3, of=9)
    assert (blind.kill_rate, blind.blindness, str(blind)) == (None, 0.75, "no telling mutant among 4")
    assert (Power().kill_rate, Power().found_rate, Power().blindness) == (None, None, None)


def test_numbers_are_read_as_they_are_written(monkeypatch, tmp_path):
    found = {"a": Power(1, 2, 3, 4, 5, 6, 7, 70, 0.25, 0.01), "b": Power(of=7)}
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
    ("margin", "ratio", "spread", "thorough", "moved"),
    [
        (0.5, 0.5, 0.0, False, False),
        (0.499, 0.5, 0.0, False, False),
        (0.498, 0.5, 0.0, False, True),
        (0.49, 0.5, 0.01, False, False),
        (0.48, 0.5, 0.01, False, True),
        (0.486, 0.5, 0.1, False, False),
        (0.484, 0.5, 0.1, False, True),  # whatever the spread
        (0.498, 0.5, 0.0, True, False),  # a longer search may find a larger ratio, but none that is smaller
        (0.502, 0.5, 0.0, True, True),
        (1.5, -0.5, 0.0, False, False),
        (1.498, -0.5, 0.0, False, True),
        (1.0, 0.0, 0.0, False, False),
        (0.9999, 0.0, 0.0, False, True),
        (math.nan, 0.5, 0.0, False, True),
        (0.5, None, 0.0, False, False),
    ],
)
def test_a_ratio_that_moves_is_noticed(margin, ratio, spread, thorough, moved):
    assert has_moved(margin, ratio, spread, thorough) == moved


def test_ratios_are_recorded_to_five_digits():
    assert largest_ratio(1 / 3) == 0.66667
    assert largest_ratio(1 - 1.23456789e-7) == 1.2346e-07
    assert largest_ratio(math.nan) is None


def test_a_check_compares_the_recorded_ratio(monkeypatch):
    loose = small_claim(lambda x, c=1.0: (0.25 * (1 + x), c * (1 + x)), mutants=[{"c": 0.2}])
    assert loose.check().agrees
    for ratio, reason in ((0.25, ""), (0.3, "the largest ratio of the sides is 0.25, recorded is 0.3")):
        monkeypatch.setattr(ledger, "powers", lambda r=ratio: {loose.identifier: Power(ratio=r)})
        assert loose.check().reason == reason


@pytest.mark.parametrize("name", ledgers.NAMES)
def test_the_page_has_the_sums_of_each_paper(name):
    paper = ledgers.paper_ledger(name)
    head, row = report._mutants([paper])
    rows = csv.DictReader(io.StringIO(written(powers())))
    own = [one for one in rows if one["claim"] in {listed.identifier for listed in paper.listed}]
    sums = {column: sum(int(one[column]) for one in own) for column in head[2:-2]}
    assert dict(zip(head[2:], row[2:-2], strict=False)) == {column: str(count) for column, count in sums.items()}
    assert row[:2] == [name, str(len(own))]
    found = sums["killed"] + sums["noticed"] + sums["elsewhere"]
    telling = found + sums["survived"]
    assert row[-2:] == [f"{sums['killed'] / telling:.1%}", f"{found / telling:.1%}"]
