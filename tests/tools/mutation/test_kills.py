"""Mutants of claims: that they run in the place of their functions, how they fare, and the record of that."""

import ast
import importlib
import inspect
import math
from collections import Counter

import numpy as np
import pytest

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery.domains import linear, vector
from corrnoise.paper_checks.machinery.power import Ratios, powers, ratio
from corrnoise.paper_checks.machinery.search import Worst, sample_points
from corrnoise.paper_checks.machinery.verdicts import FALSE, INEQUALITY
from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants
from tests.small_claims import claim as small_claim
from tools.mutation import kills as oracle
from tools.mutation import record
from tools.mutation.__main__ import main
from tools.mutation.compiled import functions_of, in_place, mutants_of
from tools.mutation.kills import fate, kills, noticed
from tools.mutation.record import Kills, read, source_of, written

GETSOURCE = inspect.getsource


def trace_bound(eigenvalues, eta, two=2.0):
    """A formula in a function of its own, so that it is a mutant too."""
    return eta * float(eigenvalues.sum()) / two


def claim(function, **fields):
    domain = {"eigenvalues": vector(linear(0.5, 1), 5), "eta": linear(0.1, 1)}
    return small_claim(function, **{"domain": domain, "mutants": [{"two": 3.0}], **fields})


def sharp_trace(eigenvalues, eta, two=2.0):
    """Equal sides, one of them a sum in another order."""
    return math.fsum(eta * eigenvalues) / 2, trace_bound(eigenvalues, eta, two)


def loose_trace(eigenvalues, eta, two=2.0):
    """Loose by a factor of ten: a maximum in the place of the sum is true as well."""
    return math.fsum(eta * eigenvalues) / 20, trace_bound(eigenvalues, eta, two)


def claim_called(name, paper="correlated-noise"):
    """A claim of the ledger."""
    [listed] = [one for one in ledgers.claims(paper, name=name) if one.name == name]
    return listed.claim


SHARP = claim(sharp_trace)
LOOSE = claim(loose_trace, mutants=[{"two": 1000.0}])
AT = {"eigenvalues": np.ones(5), "eta": 0.5}
MIDDLE = [[0.5] * SHARP.domain.size]


@pytest.mark.slow
def test_the_functions_of_a_claim_are_its_own_and_those_with_formulas_of_papers():
    assert functions_of(SHARP, MIDDLE) == [sharp_trace, trace_bound]
    written_claim = claim_called("Theorem C.14")
    names = [function.__name__ for function in functions_of(written_claim, [[0.5] * written_claim.domain.size])]
    assert "theorem_c14" in names
    assert "theorem_c14_upper_bound" in names
    assert not {"stationary_error", "averaged_variance"} & set(names)


@pytest.mark.slow
def test_functions_of_other_branches_belong_to_a_claim():
    def branched(eigenvalues, eta, two=2.0):
        return (trace_bound if eta > 0.9 else lambda eigenvalues, eta: eta)(eigenvalues, eta), two

    found = claim(branched)
    assert functions_of(found, MIDDLE) == [branched]
    assert functions_of(found, oracle._points(found)) == [branched, trace_bound]


def test_a_mutant_runs_in_the_place_of_its_function_and_only_there():
    [mutant] = [mutant for mutant in mutants_of(trace_bound) if mutant.kind == "sum to maximum"]
    assert str(mutant) == "trace_bound: eigenvalues.sum() → eigenvalues.max()"
    assert trace_bound(**AT) == 1.25
    with in_place(mutant, ()):
        assert trace_bound(**AT) == 0.25
        assert SHARP.margin(AT) < 0
    assert trace_bound(**AT) == 1.25
    with pytest.raises(ZeroDivisionError), in_place(mutant, ()):
        1 / 0  # noqa: B018
    assert trace_bound(**AT) == 1.25


def test_a_frozen_quantity_keeps_its_first_value():
    [mutant] = [m for m in mutants_of(trace_bound) if m.kind == "quantity to constant" and m.before == "eta"]
    with in_place(mutant, ()):
        assert trace_bound(**AT) == 1.25
        assert trace_bound(np.ones(5), 1.0) == 1.25
    with in_place(mutant, ()):
        assert trace_bound(np.ones(5), 1.0) == 2.5


@pytest.mark.slow
def test_a_sharp_claim_kills_and_a_loose_one_does_not():
    sharp, loose = kills(SHARP, most=100), kills(LOOSE, most=100)
    assert sharp.of == sum(sharp.fates.values()) > 20
    assert sharp.kinds["sum to maximum"] > loose.kinds["sum to maximum"] == 0
    assert set(sharp.fates) <= set(record.ENDS)
    assert sharp.power.killed > loose.power.killed
    assert all(margin >= -LOOSE.tolerance for _, margin in loose.survivors)
    assert sharp.fates["weaker"] > 0  # larger right sides
    assert (sharp.ratios, loose.ratios) == tuple(Ratios(one, 0.0, (one,), (one,)) for one in (1.0, 0.1))
    assert loose.fates["noticed"] > sharp.fates.get("noticed", 0)


def test_true_mutants_of_a_loose_claim_are_noticed_by_what_is_recorded_of_it():
    """A maximum for the sum is true, and seen in the ratio of the sides; a lost constant is, in a false neighbour."""
    points = oracle._points(LOOSE)
    margins = [LOOSE.margin_at(point) for point in points]
    [mutant] = [mutant for mutant in mutants_of(trace_bound) if mutant.kind == "sum to maximum"]
    assert fate(LOOSE, mutant, points, margins)[0] == "survived"
    with in_place(mutant, ()):
        found = LOOSE.checked(None)
    largest, medians = (ratio(found.smallest[0]),), (ratio(found.medians[0]),)
    assert noticed(LOOSE, mutant, Ratios(0.1, 0.0, largest, medians)) == "noticed"
    assert noticed(LOOSE, mutant, Ratios(0.5, 0.0, (0.1,), medians)) == "noticed"
    assert noticed(LOOSE, mutant, Ratios(0.5, 0.0, largest, medians)) == "survived"  # the ratios with the maximum
    assert noticed(LOOSE, mutant, Ratios(0.5, 0.0, largest, (0.1,))) == "noticed"
    [lost] = [mutant for mutant in mutants_of(trace_bound) if mutant.after == "eta * float(eigenvalues.sum())"]
    assert noticed(LOOSE, lost, None) == "noticed"


def test_the_spread_of_a_ratio_is_that_of_searches_that_differ_by_rounding(monkeypatch):
    """A check disagrees beyond twice the spread only."""
    assert oracle._ratios(LOOSE, oracle._worst(LOOSE)) == Ratios(0.1, 0.0, (0.1,), (0.1,))
    margins = iter([0.5, 0.5, 0.49, 0.5])

    def worst(*_):
        return Worst(next(margins), MIDDLE[0], 1, 1, 1.0, (0.6, 0.9), (0.7, 0.9))

    monkeypatch.setattr(oracle, "_worst", worst)
    assert oracle._ratios(LOOSE, worst()) == Ratios(0.5, 0.02, (0.4, 0.1), (0.3, 0.1))
    monkeypatch.undo()
    scattered = claim(lambda eigenvalues, eta, two=2.0: (0.495 * eta, two * eta / 2), mutants=[{"two": 0.9}])
    same = ((0.495,), (0.495,))
    assert scattered.checked(Ratios(0.5, 0.01, *same)).agrees
    assert not scattered.checked(Ratios(0.5, 0.0, *same)).agrees


def test_a_mutant_that_fixes_an_argument_is_a_case_of_the_claim():
    """But not where the argument occurs elsewhere, too, or bounds another one, or is mixed with other variables."""

    def once(x, y, c=2.0):
        return math.sin(x), c + y

    def twice(x, y, c=2.0):
        z = x + y
        return math.sin(x), c + z

    def fixed(function, **domain):
        found = small_claim(function, domain={"x": linear(0, 1), "y": linear(0, 1), **domain}, mutants=[{"c": -1.0}])
        return {str(m).split(": ")[1] for m in mutants_of(function) if oracle.is_case(found, m)}

    assert fixed(once) == {"x → constant(x)", "y → constant(y)"}
    assert fixed(once, y=linear(0, "x")) == set()
    assert fixed(twice) == {"y → constant(y)"}
    [other] = [m for m in mutants_of(once) if m.before == "x"]
    assert not oracle.is_case(small_claim(twice, domain={"x": linear(0, 1), "y": linear(0, 1)}), other)


def test_a_mutant_at_an_end_or_the_opposite_of_an_argument_is_a_case_of_the_claim():
    """By its sides, because the margins of all true mutants of an identity are 0."""

    def product(x, y, c=2.0):
        return x * (1 - y) * math.sin(x), c

    def identity(x, y, c=1.0):
        return c * x * (1 + y), x + x * y

    def cases(function, relation):
        domain = {"x": linear(0.1, 1), "y": linear(0, 1)}
        found = small_claim(function, relation, domain=domain, mutants=[{"c": -1.0}])
        points = oracle._points(found)
        margins = [found.margin_at(point) for point in points]
        assert not oracle.is_at_others(found, points, [oracle._sides(found, point) for point in points])
        fates = {}
        for mutant in mutants_of(function):
            with in_place(mutant, ()):
                sides = [oracle._sides(found, point) for point in points]
            fates[str(mutant).split(": ")[1]] = oracle.is_at_others(found, points, sides)
            assert len(margins) == len(points)
        return {name for name, is_case in fates.items() if is_case}

    assert cases(product, "inequality") >= {"1 - y → 1", "x * (1 - y) → x"}
    assert "x * (1 - y) → 1 - y" not in cases(product, "inequality")
    assert not any("c * x" in name for name in cases(identity, "identity"))


@pytest.mark.slow
def test_a_mutant_of_a_shared_formula_is_noticed_by_an_identity(monkeypatch):
    def same(eigenvalues, eta, two=2.0):
        return math.fsum(eta * eigenvalues) / 2, trace_bound(eigenvalues, eta, two)

    domain = {"eigenvalues": vector(linear(0.5, 1), 5), "eta": linear(0.1, 1)}
    identity = small_claim(same, "identity", domain=domain, mutants=[{"two": 3.0}])
    monkeypatch.setattr(
        oracle, "noticed", lambda claim, *rest: noticed(claim, *rest) if claim is identity else "survived"
    )
    alone = kills(LOOSE, most=40)
    monkeypatch.setattr(oracle, "_identities", lambda _: [identity])
    together = kills(LOOSE, most=40)
    assert alone.fates.get("elsewhere", 0) == 0 < together.fates["elsewhere"]
    assert together.fates.get("survived", 0) < alone.fates["survived"]
    assert together.power == alone.power


def test_the_identities_of_a_formula_are_found_in_the_record():
    function = ConvergenceConstants._bound
    mutant = next(mutants_of(function))
    assert "shuffled-gradients-appendix-f.3-noise-terms" in {one.identifier for one in oracle._identities(mutant)}


def saturates(claim):
    """Whether nearly all points say nothing: there 0 or less is compared with a positive number, or often 0 with 0."""
    points = oracle._points(claim)
    sides = [side for side in (oracle._sides(claim, point) for point in points) if not np.isnan(side).any()]
    margins = [margin for margin in (oracle._margin(claim, point) for point in points) if not math.isnan(margin)]
    flat = sum(margin >= 1 for margin in margins) > 0.9 * len(margins)
    return (claim.relation == INEQUALITY and flat) or sum(not side.any() for side in sides) > 0.1 * len(sides)


@pytest.mark.slow
def test_a_check_that_saturates_has_an_instance_that_bites():
    """Where nearly all points say nothing, the search must find one at which mutants fail, and few may survive."""
    claims = [listed.claim for listed in ledgers.claims() if listed.recorded != FALSE]
    found = {claim.identifier: powers()[claim.identifier] for claim in claims if saturates(claim)}
    fates = record.recorded()
    assert len(found) >= 5
    for name, power in found.items():
        assert power.killed > 0
        assert fates[name].fates.get("survived", 0) <= 0.2 * power.telling


@pytest.mark.slow
def test_the_sample_is_seeded_and_has_all_kinds():
    first, second = kills(SHARP, most=9), kills(SHARP, most=9)
    assert first == second
    assert first.power.drawn - first.power.equal >= 9
    assert first.power.telling >= oracle.TELLING
    assert kills(SHARP, most=3).power.drawn < first.power.drawn < first.of
    assert len(first.kinds) >= 6


def test_mutants_are_compared_inside_of_the_domain_too():
    """A claim with few evaluations would otherwise be compared at corners only, where a mutant may be equal to it."""
    few = claim(lambda eigenvalues, eta, two=2.0: (1.0, two), evaluations=16)
    points = oracle._points(few)
    assert len(points) == 8
    assert (points[0] == 0.5).all()
    corners = [np.isin(point, (0.0, 1.0)).all() for point in points]
    inside = [((point > 0) & (point < 1)).all() for point in points]
    assert any(corners)
    assert sum(inside) >= 2


def test_of_a_false_claim_there_are_no_mutants():
    false = claim(lambda eigenvalues, eta, two=2.0: (1.0, 0.0 * two), counterexample=AT)
    assert kills(false) == Kills(source_of(false), 0)


@pytest.mark.slow
def test_the_record_is_read_as_it_is_written():
    found = {"b": kills(LOOSE, most=40), "a": Kills("0", 0)}
    assert read(written(found)) == found
    assert Counter(written(found))["\n"] == 4  # one line for each claim, so that changes can be compared


def test_a_claim_that_changed_counts_as_not_tried():
    found = kills(SHARP, most=3)
    assert record.is_current(found, SHARP)
    assert SHARP.identifier == LOOSE.identifier
    assert source_of(SHARP) != source_of(LOOSE)
    assert not record.is_current(found, LOOSE)
    assert record.numbers({SHARP.identifier: found}, [SHARP]) == {SHARP.identifier: found.power}
    assert not record.numbers({SHARP.identifier: found}, [LOOSE])


def test_a_formula_that_changed_counts_as_not_tried(monkeypatch):
    """The text of functions that a claim calls belongs to its source, their documentation does not."""
    name = "corrnoise.theory.papers.momentum_aggregation.least_noise:noise_limit"
    module = importlib.import_module(name.split(":")[0])
    text = inspect.getsource(module)
    source = source_of(SHARP, [name])
    gone = [source_of(SHARP, [name.replace(part, "gone")]) for part in ("noise_limit", "least_noise")]
    assert source not in (source_of(SHARP), *gone)
    for before, after, same in (("the least noise", "most noise", True), ("alpha / agm", "2 * alpha / agm", False)):
        assert before in text
        changed = text.replace(before, after)
        monkeypatch.setattr(inspect, "getsource", lambda found, t=changed: t if found is module else GETSOURCE(found))
        record._definitions.cache_clear()
        assert (source_of(SHARP, [name]) == source) == same
    monkeypatch.undo()
    record._definitions.cache_clear()


def test_a_constant_that_changed_counts_as_not_tried(monkeypatch):
    """A number that a function reads from its module belongs to its source; its name and other values do not."""
    name = "corrnoise.theory.papers.correlated_noise.published_bounds:upper_bound"
    module = importlib.import_module(name.split(":")[0])
    read = ast.parse("def upper_bound(problem):\n    return FACTOR * problem.trace").body[0]
    monkeypatch.setattr(record, "_definitions", lambda _: {"upper_bound": read})
    monkeypatch.setattr(module, "FACTOR", 2.0, raising=False)
    source = source_of(SHARP, [name])
    monkeypatch.setattr(module, "OTHER", 3.0, raising=False)
    assert source_of(SHARP, [name]) == source
    renamed = ast.parse("def upper_bound(problem):\n    return OTHER_FACTOR * problem.trace").body[0]
    monkeypatch.setattr(module, "OTHER_FACTOR", 2.0, raising=False)
    monkeypatch.setattr(record, "_definitions", lambda _: {"upper_bound": renamed})
    assert source_of(SHARP, [name]) == source
    monkeypatch.setattr(module, "OTHER_FACTOR", 2.5)
    assert source_of(SHARP, [name]) != source


def test_the_published_record_is_of_claims_of_the_ledger():
    known = {claim.identifier for claim in ledgers.claims()}
    recorded = record.recorded()
    assert len(known & recorded.keys()) >= 0.8 * len(recorded)
    assert set(powers()) <= known
    for name, one in powers().items():  # of claims that were current when it was written
        assert one == recorded[name].power
        assert one.drawn <= one.of
        assert one.telling >= oracle.TELLING or one.drawn >= min(one.of, oracle.DRAWN), name


@pytest.mark.slow
def test_every_survivor_has_a_reason_and_every_reason_a_survivor():
    """Unless the claim has changed since; then the command that records says what is to be done."""
    reasons = record.reasons()
    recorded = record.recorded()
    known = {listed.identifier: listed.claim for listed in ledgers.claims()}
    assert reasons.keys() <= known.keys()
    for name, claim in known.items():
        found = recorded.get(name)
        if found is not None and record.is_current(found, claim):
            assert reasons.get(name, {}).keys() - {record.FEW} == dict(found.survivors).keys(), name
    for reason in (reason for written_down in reasons.values() for reason in written_down.values()):
        assert reason[0] == reason[0].lower()
        assert reason[-1] != "."


def test_a_claim_that_kills_few_says_why():
    """Half of the telling mutants must be killed or noticed, or the reason be written down."""
    reasons = record.reasons()
    for name, found in record.recorded().items():
        if name in powers():
            assert found.needs_reason == (record.FEW in reasons.get(name, {})), name


@pytest.mark.parametrize(
    ("fates", "needed"),
    [
        ({"killed": 3, "survived": 3}, False),
        ({"killed": 2, "noticed": 1, "survived": 4}, True),
        ({"killed": 2, "noticed": 2, "survived": 4}, False),
        ({"killed": 3, "shifted": 2, "elsewhere": 2}, True),
        ({"survived": 1}, True),
        ({"equal": 7}, True),
    ],
)
def test_a_reason_is_needed_below_one_half(fates, needed):
    assert Kills("", 12, fates).needs_reason == needed
    assert not Kills("", 0).needs_reason


@pytest.mark.slow
def test_the_record_is_up_to_date():
    """Nearly all claims that may be true are as they were when their mutants were tried."""
    claims = [listed.claim for listed in ledgers.claims() if listed.recorded != FALSE]
    missing = [claim.identifier for claim in claims if claim.identifier not in powers()]
    known = record.recorded()
    changed = [
        c.identifier for c in claims if c.identifier in powers() and not record.is_current(known[c.identifier], c)
    ]
    assert len(missing) + len(changed) <= 0.05 * len(claims), [*missing, *changed]


def test_reasons_that_are_missing_or_out_of_date_are_reported(monkeypatch):
    known = {"a": {"f: x → y": "it is weaker", "f: gone": "it was weaker"}, "b": {record.FEW: "there is one"}}
    monkeypatch.setattr(record, "reasons", lambda: known)
    survivors = (("f: x → y", 0.0), ("f: close", 1e-3), ("f: far", 0.5))
    found = {"a": Kills("", 3, {"survived": 3}, survivors=survivors), "b": Kills("", 1, {"killed": 1})}
    assert list(record.remarks(found)) == [
        "a: no survivor any more: f: gone",
        "a: has no reason for: few are killed",
        "a: survives with the margin 0.001 and has no reason: f: close",
        "a: survives with the margin 0.5 and has no reason: f: far",
        "b: needs no reason for: few are killed",
    ]


#: Claims that are sharp: each of them must kill most of what says more than it does.
TELLING = ["Property F.10 (constant)", "Lemma F.20 (bound)"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TELLING)
def test_claims_of_the_ledger_kill_structural_mutants(name):
    found = kills(claim_called(name), most=12)
    assert found.power.killed > 0.5 * found.power.telling > 0


def maxima(name, paper="correlated-noise"):
    """The fates of the mutants of a claim in which a sum over directions has become a maximum."""
    found = claim_called(name, paper)
    points = sample_points(found.domain.size, 8)
    margins = [found.margin_at(point) for point in points]
    functions = functions_of(found, points)
    mutants = [m for function in functions for m in mutants_of(function) if m.kind == "sum to maximum"]
    return [fate(found, mutant, points, margins)[0] for mutant in mutants]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Theorem 2.2 (ν-Noisy-FTRL)", "Table 1 (ν-Noisy-FTRL)", "Property C.3 (R²)"])
def test_dimension_free_versions_of_statements_about_the_dimension_are_rejected(name):
    """A maximum over directions in the place of a sum is true in few dimensions and false in many."""
    fates = maxima(name)
    assert "killed" in fates
    assert "survived" not in fates


@pytest.mark.slow
def test_results_are_kept_and_not_computed_again(tmp_path, capsys, monkeypatch):
    for name in ("RECORD", "NUMBERS"):
        monkeypatch.setattr(record, name, tmp_path / name)
    arguments = ["claims", "correlated-noise", "Property C.7", "--jobs", "1", "--record"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    head, row = printed.splitlines()[:2]
    assert head.split() == ["paper", "statement", *record.ENDS, "of"]
    assert row.startswith("correlated-noise  Property C.7")
    [(name, found)] = record.recorded().items()
    assert name == "correlated-noise-property-c.7"
    assert f" {found.power.killed} killed: the check finds it to be false" in printed
    assert f"{name},{found.power.killed}," in (tmp_path / "NUMBERS").read_text()
    monkeypatch.setattr(oracle, "tried", pytest.fail)
    assert main(arguments) == 0
    assert capsys.readouterr().out == printed
    assert main([*arguments, "--seed", "1"]) == 2
    assert "--seed must be 0 with --record, got 1" in capsys.readouterr().err
    assert main(["claims", "Lemma 99"]) == 2
    assert "there is no paper or claim 'Lemma 99'" in capsys.readouterr().err
