"""The power of checks: numbers of mutants, and where they are shown."""

import csv
import io

import pytest

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery import report
from corrnoise.paper_checks.machinery.power import Power, powers, written
from corrnoise.paper_checks.machinery.records import outcome_record
from corrnoise.paper_checks.machinery.wording import check


def test_rates_are_of_the_mutants_that_tell_and_of_those_drawn():
    power = Power(killed=6, survived=2, weaker=5, equal=4, undefined=3, of=40)
    assert (power.drawn, power.telling) == (20, 8)
    assert (power.kill_rate, power.blindness) == (0.75, 0.35)
    assert str(power) == "6 of 8 telling mutants killed (75%), blindness 35%"
    assert power + power == Power(12, 4, 10, 8, 6, 80)
    blind = Power(weaker=1, equal=3, of=9)
    assert (blind.kill_rate, blind.blindness, str(blind)) == (None, 0.75, "no telling mutant among 4")
    assert (Power().kill_rate, Power().blindness) == (None, None)


def test_numbers_are_read_as_they_are_written(monkeypatch, tmp_path):
    found = {"a": Power(1, 2, 3, 4, 5, 60), "b": Power(of=7)}
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


@pytest.mark.parametrize("name", ledgers.NAMES)
def test_the_page_has_the_sums_of_each_paper(name):
    paper = ledgers.paper_ledger(name)
    head, row = report._mutants([paper])
    rows = csv.DictReader(io.StringIO(written(powers())))
    own = [one for one in rows if one["claim"] in {listed.identifier for listed in paper.listed}]
    assert dict(zip(head[2:], row[2:], strict=True)) == {
        column: str(sum(int(one[column]) for one in own)) for column in head[2:]
    }
    assert row[:2] == [name, str(len(own))]
