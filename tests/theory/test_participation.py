"""Participation: patterns and their order against enumeration, and refusals."""

import itertools
import math
from dataclasses import replace
from functools import cache

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.participation import (
    ANY_LENGTH,
    FixedEpochs,
    MinSep,
    Participation,
    Poisson,
    RedrawnBins,
    Reshuffled,
    Single,
)

MOST = 7  #: steps of the enumerated runs


def admits(who, steps):
    """Whether one run may use an example in exactly these steps, or in these and more, by the words of its class."""
    if isinstance(who, Poisson):
        return True
    if isinstance(who, Single | MinSep):
        return len(steps) <= who.count and all(j - i >= who.period for i, j in itertools.pairwise(steps))
    b = who.period
    if isinstance(who, Reshuffled | RedrawnBins):
        return len(steps) <= who.worst.count and all(i // b != j // b for i, j in itertools.pairwise(steps))
    return len({i % b for i in steps}) == 1


def maximal_by_enumeration(who):
    """Admissible sets of steps of which no other admissible set is a superset."""
    subsets = [s for size in range(1, who.steps + 1) for s in itertools.combinations(range(who.steps), size)]
    admissible = [set(subset) for subset in subsets if admits(who, subset)]
    return sorted(sorted(s) for s in admissible if not any(s < other for other in admissible))


def random_kinds(n):
    """All kinds that draw something, with n steps."""
    yield Participation.poisson(n, 0.5)
    for b in range(1, n + 2):
        yield Participation.balls_in_bins(n, period=b)
        yield Participation.redrawn_bins(n, period=b)
        yield Participation.cyclic_poisson(n, period=b, rate=0.5)
        yield Participation.fixed_epochs(n, period=b, secret=True)
        yield Participation.reshuffled(n, period=b, secret=True)


def worst_kinds(n):
    """All promises of n steps that draw nothing, with the counts that were asked for."""
    yield Participation.single(n), 1
    for b in range(1, n + 2):
        yield Participation.fixed_epochs(n, period=b), -(-n // b)
        for door in (Participation.min_sep, Participation.reshuffled):
            for count in range(1, -(-n // b) + 2):
                yield door(n, period=b, count=count), count


# -- the worst case ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, MOST + 1))
def test_the_worst_case_is_whatever_can_be_drawn(n):
    for who in random_kinds(n):
        assert [p.tolist() for p in who.worst.worst.patterns()] == maximal_by_enumeration(who)
        assert not who.worst.secret
        assert who.covered_by(who.worst)
        assert who.worst.covered_by(who)
    for who, _ in worst_kinds(n):
        assert who.worst == who
    if n > 2:  # mutants
        assert Participation.single(n).covered_by(Participation.poisson(n, 0.5))
        assert not Participation.poisson(n, 0.5).covered_by(Participation.single(n))
        drawn, fixed = Participation.reshuffled(n, period=2, secret=True), Participation.fixed_epochs(n, period=2)
        assert fixed.covered_by(drawn)
        assert not drawn.covered_by(fixed)


def test_largest_pattern_saturation_and_length():
    who = Participation.min_sep(12, 5, 2)
    assert who.largest.tolist() == [0, 5]
    assert not who.saturated
    assert Participation.min_sep(12, 5).saturated
    assert Participation.single(12).once
    assert ANY_LENGTH.once
    assert [c.tolist() for c in Participation.fixed_epochs(5, period=2).residue_classes()] == [[0, 2, 4], [1, 3]]
    assert [c.tolist() for c in Participation.fixed_epochs(2, period=3).residue_classes()] == [[0], [1]]
    assert [c.tolist() for c in Participation.reshuffled(5, period=2).blocks()] == [[0, 1], [2, 3], [4]]
    assert who.length == 12
    with pytest.raises(ValueError, match="participation must have a number of steps here"):
        _ = ANY_LENGTH.length


# -- the order of promises ---------------------------------------------------------------------------------------------


def subpatterns(who):
    """All sets of steps that lie in a pattern, as bits."""
    steps = [s for size in range(1, who.steps + 1) for s in itertools.combinations(range(who.steps), size)]
    return frozenset(sum(1 << step for step in subset) for subset in steps if admits(who, subset))


@cache
def pairs():
    """All pairs of promises, the second for a run that is not shorter: (one, other, whether one is covered).

    A promise comes with the count that was asked for.  Covered: every pattern of one lies in a pattern of the other.
    """
    promises = [(promise, subpatterns(promise[0])) for n in range(1, MOST + 1) for promise in worst_kinds(n)]
    return [
        (one, other, own <= others)
        for (one, own), (other, others) in itertools.product(promises, repeat=2)
        if one[0].steps <= other[0].steps
    ]


def test_the_order_of_promises_by_enumeration():
    wrong = [(one, other) for (one, _), (other, _), covered in pairs() if one.covered_by(other) != covered]
    assert not wrong
    assert min(sum(covered for *_, covered in pairs()), sum(not covered for *_, covered in pairs())) > 3_000


def divides(p, q):
    """The relation of MinSep in FixedEpochs without its single difference, and of two Reshuffled like MinSep."""
    if isinstance(p, MinSep) and isinstance(q, FixedEpochs):
        return q.period == 1
    return p.within(q)


def separates(p, q):
    return p.period >= q.period if isinstance(p, Reshuffled) and isinstance(q, Reshuffled) else p.within(q)


MUTANTS = {
    "inclusion reversed": lambda p, q: p[0].once or (p[0].count <= q[0].count and q[0].within(p[0])),
    "size ignored": lambda p, q: p[0].once or p[0].within(q[0]),
    "relation ignored": lambda p, q: p[0].once or p[0].count <= q[0].count,
    "single not special": lambda p, q: p[0].count <= q[0].count and not isinstance(p[0], Single) and p[0].within(q[0]),
    "count before the cut": lambda p, q: p[0].once or (p[1] <= q[1] and p[0].within(q[0])),
    "reshuffled like fixed": lambda p, q: _unshuffled(p[0]).covered_by(_unshuffled(q[0])),
    "without one difference": lambda p, q: p[0].once or (p[0].count <= q[0].count and divides(p[0], q[0])),
    "reshuffled by separation": lambda p, q: p[0].once or (p[0].count <= q[0].count and separates(p[0], q[0])),
}


def _unshuffled(who):
    return Participation.fixed_epochs(who.steps, period=who.period) if isinstance(who, Reshuffled) else who


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_order_are_noticed(name):
    assert any(MUTANTS[name](one, other) != covered for one, other, covered in pairs())


def test_the_order_beyond_patterns():
    """Runs of any length, units and members."""
    who = Participation.min_sep(10, 3)
    assert ANY_LENGTH.covered_by(ANY_LENGTH)
    assert Participation.single(10).covered_by(ANY_LENGTH)
    assert not ANY_LENGTH.covered_by(Participation.single(10**9))
    assert not who.covered_by(ANY_LENGTH)
    assert not Participation.single(11).covered_by(who)
    users = {c: Participation.min_sep(10, 3, unit="user", members=c) for c in (1, 3)}
    assert users[1].covered_by(users[3])
    assert not users[3].covered_by(users[1])
    assert not users[1].covered_by(who)
    assert not who.covered_by(users[1])
    chain = [
        Participation.fixed_epochs(12, period=4),
        Participation.min_sep(12, 4),
        Participation.reshuffled(12, period=4),
        Participation.min_sep(12, 1, 3),
    ]
    for i, j in itertools.product(range(4), repeat=2):
        assert chain[i].covered_by(chain[j]) == (i <= j)


# -- sampled promises --------------------------------------------------------------------------------------------------


def test_a_sampled_promise_is_kept_by_the_same_sampling_alone():
    sampled = [
        Participation.poisson(12, 0.25),
        Participation.poisson(12, 0.2),
        Participation.poisson(11, 0.25),
        Participation.poisson(12, 0.25, examples=40),
        Participation.poisson(12, 0.25, capacity=30, examples=40),
        Participation.cyclic_poisson(12, period=4, rate=0.25),
        Participation.cyclic_poisson(12, period=3, rate=0.25),
        Participation.balls_in_bins(12, period=4),
        Participation.redrawn_bins(12, period=4),
        Participation.b_min_sep(12, period=4, rate=0.25),
        Participation.b_min_sep(12, period=4, rate=0.2),
    ]
    fixed = [
        Participation.single(12),
        Participation.fixed_epochs(12, period=4),
        Participation.fixed_epochs(12, period=4, secret=True),
        Participation.reshuffled(12, period=4),
        Participation.reshuffled(12, period=4, secret=True),
    ]
    assert all(who.sampled for who in sampled)
    assert not any(who.sampled for who in fixed)
    for given_, promise in itertools.product(sampled + fixed, sampled):
        assert given_.satisfies(promise) == (given_ == promise)
    for given_, promise in itertools.product(sampled + fixed, fixed):
        assert given_.satisfies(promise) == given_.covered_by(promise)


def tail(trials, chance, least):
    """P(Bin(trials, chance) >= least), to 30 digits."""
    with mpmath.workdps(40):
        p = mpmath.mpf(chance)
        term = mpmath.binomial(trials, least) * p**least * (1 - p) ** (trials - least)
        total = mpmath.mpf(0)
        for successes in range(least, trials + 1):
            total += term
            if successes > trials * p and term < total * mpmath.mpf(10) ** -35:
                break
            term *= mpmath.mpf(trials - successes) / (successes + 1) * p / (1 - p)
        return total


@pytest.mark.parametrize(
    ("who", "exact"),
    [
        (Participation.poisson(7, 0.2, capacity=4, examples=6), 7 * tail(5, 0.2, 4)),
        (Participation.poisson(7, 0.2, capacity=5, examples=6), 7 * tail(5, 0.2, 5)),
        (Participation.poisson(1000, 0.01, capacity=1300, examples=100_000), 1000 * tail(99_999, 0.01, 1300)),
        (Participation.poisson(1000, 0.01, capacity=3000, examples=100_000), 1000 * tail(99_999, 0.01, 3000)),
        (Participation.poisson(50, 1e-3, capacity=1160, examples=10**6), 50 * tail(10**6 - 1, 1e-3, 1160)),
        (Participation.cyclic_poisson(10, period=4, rate=0.5, capacity=20, examples=101), 3 * tail(25, 0.5, 20)),
        (Participation.balls_in_bins(40, period=10, capacity=30, examples=100), 10 * tail(99, "0.1", 30)),
        (Participation.balls_in_bins(4, period=10, capacity=30, examples=100), 4 * tail(99, "0.1", 30)),
        (Participation.redrawn_bins(40, period=10, capacity=30, examples=100), 40 * tail(99, "0.1", 30)),
    ],
)
def test_overflow_is_the_union_of_binomial_tails_rounded_up(who, exact):
    assert exact * (1 + mpmath.mpf("2e-6")) + 1e-296 >= who.overflow >= exact
    another = replace(who, capacity=who.capacity - 1)  # a mutant
    assert another.overflow > exact * 1.01


def test_overflow_at_its_ends():
    assert Participation.poisson(7, 0.5, examples=6).overflow == 0.0
    assert Participation.poisson(7, 0.5, capacity=6, examples=6).overflow == 0.0
    assert Participation.poisson(7, 1.0, capacity=5, examples=6).overflow == 1.0
    assert Participation.redrawn_bins(7, period=1, capacity=5, examples=6).overflow == 1.0
    assert Participation.poisson(7, 0.5, capacity=1, examples=6).overflow == 1.0


@pytest.mark.parametrize("overflow", [1e-3, 1e-12, 1e-40])
@pytest.mark.parametrize(
    "who",
    [
        Participation.poisson(400, 0.01),
        Participation.cyclic_poisson(40, period=4, rate=0.5),
        Participation.balls_in_bins(40, period=10),
        Participation.redrawn_bins(40, period=10),
        Participation.b_min_sep(40, period=10, rate=0.05),
    ],
)
def test_room_is_the_smallest_capacity_that_is_rarely_filled(who, overflow):
    made = who.with_room(3000, overflow)
    assert made == replace(who, capacity=made.capacity, examples=3000)
    assert made.overflow <= overflow < replace(made, capacity=made.capacity - 1).overflow
    assert made.with_room(3000, 0.5) is made


def test_room_for_everyone():
    assert Participation.poisson(7, 1.0).with_room(50, 1e-9).capacity == 50
    assert Participation.poisson(7, 0.5).with_room(1, 1e-9).capacity == 1


# -- the words of other libraries, and refusals ------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 50))
def test_a_count_that_does_not_fit_does_not_bind(n, b, k):
    ours = Participation.min_sep(n, b, k)
    assert (ours.steps, ours.period, ours.count) == (n, b, min(k, math.ceil(n / b)))
    assert ours == Participation.min_sep(n, b, ours.count)
    assert Participation.fixed_epochs(n * k, epochs=k) == Participation.fixed_epochs(n * k, period=n)
    assert Participation.reshuffled(n * k, epochs=k) == Participation.reshuffled(n * k, period=n)
    with pytest.raises(ValueError, match="steps must be a multiple of epochs"):
        Participation.fixed_epochs(n * (k + 1) + 1, epochs=k + 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Participation.min_sep(10, 0), "period must be an integer >= 1, got 0"),
        (lambda: Participation.min_sep(10, 1, 0), "count must be an integer >= 1, got 0"),
        (lambda: Participation.cyclic_poisson(10, period=2, rate=1.5), r"rate must lie in \[1e-12, 1\], got 1.5"),
        (lambda: Participation.poisson(10, 0.1, capacity=3), "examples must be given with a capacity, got None"),
        (lambda: Participation.poisson(10, 0.1, capacity=0, examples=9), "capacity must be an integer >= 1, got 0"),
        (lambda: Participation.poisson(10, 0.1, examples=0), "examples must be an integer >= 1, got 0"),
        (lambda: Participation.single(10, unit="group"), "unit must be one of 'example', 'user', got 'group'"),
        (lambda: Participation.single(10, members=0), "members must be an integer >= 1, got 0"),
        (lambda: Participation.single(0), "steps must be an integer >= 1, got 0"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        Participation,
        lambda: Participation.fixed_epochs(12, period=4, count=2),
        lambda: Participation.min_sep(10, 3, secret=True),
        lambda: Participation.balls_in_bins(10, period=2, rate=0.5),
        lambda: Participation.balls_in_bins(10, period=2, members=2),
        lambda: Participation.min_sep(None, 4),
        lambda: Participation.fixed_epochs(12, period=4, secret=1),
    ],
)
def test_wrong_fields_are_type_errors(make):
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("make", [Participation.fixed_epochs, Participation.reshuffled])
def test_epochs_are_said_once(make):
    for arguments in ({}, {"period": 5, "epochs": 2}):
        with pytest.raises(ValueError, match="period or epochs must be given, one of them"):
            make(10, **arguments)


def test_words():
    words = [
        (Participation.single(5), "each example in at most one step"),
        (Participation.min_sep(9, 3), "each example in at most 3 steps, at least 3 steps apart"),
        (Participation.min_sep(9, 1, 2), "each example in at most 2 steps, in any of them"),
        (
            Participation.fixed_epochs(9, epochs=3, secret=True),
            "of 3 steps, in the same order, which is secret",
        ),
        (Participation.reshuffled(9, epochs=3), "each example once in each of 3 epochs of 3 steps, in any order"),
        (Participation.balls_in_bins(9, period=3), "in a bin of its own that was drawn once"),
        (Participation.redrawn_bins(9, period=3), "in a bin that is drawn in each epoch"),
        (Participation.b_min_sep(9, period=3, rate=0.25), "with probability 0.25, at least 3 steps apart"),
        (Participation.poisson(9, 0.5, capacity=3, examples=5), "batches cut to 3 of 5 examples"),
        (Participation.poisson(9, 0.25), "each example in every step with probability 0.25"),
        (Participation.cyclic_poisson(9, period=3, rate=0.5), "with probability 0.5 in every 3th step"),
        (Participation.single(5, unit="user", members=4), "each user of at most 4 examples in at most one step"),
    ]
    for who, text in words:
        assert text in who.summary()


def test_a_door_is_not_replaced():
    with pytest.raises(TypeError, match="door must be a name that Participation does not have, got 'poisson'"):

        class Other(Single, door="poisson"):
            pass

    with pytest.raises(TypeError, match="got 'summary'"):

        class Another(Single, door="summary"):
            pass

    assert Participation.poisson is Poisson
