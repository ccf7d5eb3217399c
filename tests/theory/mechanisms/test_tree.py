"""Binary trees with one draw a step, against trees with a draw for each node, and against all patterns."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.worst_case import worst_case
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import FixedEpochs, MinSep, Participation, Reshuffled

DECODERS = ("binary", "online")


def with_a_draw_a_node(n: int, decoder: str, decay: float) -> np.ndarray:
    """N of the tree as the literature has it, shape (n, nodes): dyadic intervals and Honaker's estimates from below."""
    nodes = [(h, s) for h in range(n.bit_length()) for s in range(n >> h)]
    draws = dict(zip(nodes, np.eye(len(nodes)), strict=True))

    def estimate(h: int, s: int) -> tuple[np.ndarray, float]:
        """The noise of an interval, and its variance."""
        if h == 0 or decoder == "binary":
            return draws[h, s], 1.0
        (left, variance), (right, _) = estimate(h - 1, 2 * s), estimate(h - 1, 2 * s + 1)
        aged = (1 - decay) ** 2 ** (h - 1)
        below = variance * (1 + aged**2)
        own = below / (1 + below)
        return own * draws[h, s] + (1 - own) * (aged * left + right), own

    def prefix(t: int) -> np.ndarray:
        total = np.zeros(len(nodes))
        while t:
            h = (t & -t).bit_length() - 1
            total = total + ages[t] * estimate(h, (t >> h) - 1)[0]
            t -= 1 << h
        return total

    rows = []
    before = np.zeros(len(nodes))
    for end in range(1, n + 1):
        ages = {t: (1 - decay) ** (end - t) for t in range(1, end + 1)}
        rows.append(prefix(end) - (1 - decay) * before)
        before = prefix(end)
    return np.array(rows)


def noising(tree: BinaryTree, *, left=None, draws=None, estimates=None, shift: int = 0) -> np.ndarray:
    """N by the recurrence of the module, with weights of one's own."""
    left = tree.left if left is None else left
    draws = tree.draws if draws is None else draws
    estimates = tree.estimates if estimates is None else estimates
    nodes = {t: np.zeros(tree.steps) for t in range(-tree.steps, 1)}
    rows = []
    for t in range(1, tree.steps + 1):
        h = (t & -t).bit_length() - 1
        earlier = [nodes[t - (1 << (i + shift))] for i in range(h)]
        own = draws[h] * np.eye(tree.steps)[t - 1]
        nodes[t] = sum((a * node for a, node in zip(estimates[h], earlier, strict=False)), own)
        rows.append(nodes[t] - sum((d * node for d, node in zip(left, earlier, strict=False)), 0 * own))
    return np.array(rows)


@given(st.integers(1, 40), st.sampled_from(DECODERS), st.just(0.0) | st.floats(0.001, 0.95))
def test_one_draw_a_step_has_the_law_of_one_a_node(n, decoder, decay):
    tree = BinaryTree(n, decoder=decoder, decay=decay)
    slow = with_a_draw_a_node(n, decoder, decay)
    matrix = tree.noising_matrix()
    np.testing.assert_allclose(matrix @ matrix.T, slow @ slow.T, atol=2e-14)
    np.testing.assert_allclose(matrix, noising(tree), atol=1e-15)
    np.testing.assert_allclose(tree.strategy() @ matrix, np.eye(n), atol=1e-14)
    np.testing.assert_allclose(tree.column_norms(), np.linalg.norm(tree.strategy(), axis=0), rtol=1e-14)
    per_column = np.count_nonzero(tree.strategy(), axis=0)
    assert per_column.max() <= tree.memory() == n.bit_length() == int(math.log2(n)) + 1
    assert (tree.strategy() >= 0).all()


def test_other_weights_have_another_law():
    """Mutants: s = 1, weights without the decay, the child t − 2^(i+1) in place of t − 2^i, the other decoder."""
    tree = BinaryTree(23, decay=0.2)
    slow = with_a_draw_a_node(23, "online", 0.2)
    law = slow @ slow.T
    mutants = [
        noising(tree, draws=np.ones(tree.draws.size)),
        noising(tree, estimates=np.tril(tree.estimates / tree.left, -1)),
        noising(tree, shift=1),
        noising(tree, left=np.ones(tree.left.size)),
        BinaryTree(23, decoder="binary", decay=0.2).noising_matrix(),
        BinaryTree(23, decay=0.2 + 1e-6).noising_matrix(),
    ]
    for mutant in mutants:
        assert np.abs(mutant @ mutant.T - law).max() > 1e-7


@pytest.mark.parametrize(
    ("who", "binary", "online"),
    [
        (Participation.single(64), 2.645751311065, 2.468002892526),
        (Participation.fixed_epochs(64, period=16), 6.164414003, 6.448099983),
        (Participation.min_sep(64, 16), 6.164414003, 6.448099983),
        (Participation.fixed_epochs(400, period=100), 5.830951894845, 6.132958713608),
        (Participation.fixed_epochs(1000, period=100), 10.198039027186, 11.216960819263),
        (Participation.fixed_epochs(1024, period=256), 7.348469228350, 7.421524123109),
        (Participation.single(7), math.sqrt(3), 1.647508942096),
        (Participation.reshuffled(1024, period=256), 7.348469228350, None),
    ],
    ids=lambda value: value.summary() if isinstance(value, Participation) else "",
)
def test_known_sensitivities(who, binary, online):
    """Neither decoder may be charged as the other one."""
    gammas = {decoder: BinaryTree(who.length, decoder=decoder).bracket(who) for decoder in DECODERS}
    assert gammas["binary"].exact
    assert gammas["binary"].value == pytest.approx(binary, abs=6e-10)
    if online is None:
        assert 7.421524123109 < gammas["online"].upper < 7.531
    else:
        assert gammas["online"].exact
        assert gammas["online"].value == pytest.approx(online, abs=6e-10)
        assert abs(binary - online) > 1e-2


@pytest.mark.parametrize(("steps", "period", "rho"), [(4, 2, 4.0), (5, 2, 4.5), (7, 2, 5.5), (7, 3, 4.5)])
def test_trees_under_participation(steps, period, rho):
    """Not more than the zCDP budgets of federated-compute, which charges all nodes, for trees without restarts."""
    who = Participation.min_sep(steps, period)
    nodes = np.array(
        [[t >> h == s for t in range(steps)] for h in range(steps.bit_length()) for s in range(steps >> h)], dtype=float
    )
    assert worst_case(nodes, who).value ** 2 / 2 == pytest.approx(rho, rel=1e-12)
    for decoder in DECODERS:
        assert BinaryTree(steps, decoder=decoder).sensitivity_upper_bound(who) ** 2 / 2 <= rho * (1 + 1e-12)


@pytest.mark.parametrize("heights", [1, 2, 3, 4, 5, 6])
def test_the_online_sensitivity_by_columns_and_by_heights(heights):
    """Theorem: the largest sum over increasing heights, and its closed form for n = 4^q."""

    def square(chosen: tuple[int, ...]) -> float:
        first = 3 * (2 ** (chosen[0] + 1) - 1) / (2 ** (chosen[0] + 1) + 1)
        pairs = itertools.pairwise(chosen)
        return first + sum(3 * (2 ** (k + 1) - 2 ** (j + 1)) ** 2 / (4 ** (k + 1) - 1) for j, k in pairs)

    below = range(heights)
    best = max(square((*low, heights)) for size in range(heights + 1) for low in itertools.combinations(below, size))
    n = 2**heights
    assert BinaryTree(n).sensitivity(Participation.single(n)) ** 2 == pytest.approx(best, rel=1e-12)
    if heights % 2 == 0:
        closed = 1 + sum(27 * 16**k / (4 * (4 * 16**k - 1)) for k in range(1, heights // 2 + 1))
        assert best == pytest.approx(closed, rel=1e-13)
        assert best != pytest.approx(1 + 27 / 16 * heights / 2, rel=1e-4)


@pytest.mark.parametrize(
    ("n", "square"), [(4, 2.714285714286), (16, 4.403435274403), (256, 7.778544714842), (1024, 9.466045117174),
                      (65536, 14.528545143989)]
)  # fmt: skip
def test_the_online_sensitivity_of_long_runs(n, square):
    assert BinaryTree(n).sensitivity(Participation.single(n)) ** 2 == pytest.approx(square, abs=6e-12)


@given(st.integers(1, 10), st.integers(1, 6), st.sampled_from([MinSep, FixedEpochs, Reshuffled]), st.data())
def test_brackets_against_all_patterns(n, period, door, data):
    decoder = data.draw(st.sampled_from(DECODERS))
    tree = BinaryTree(n, decoder=decoder, decay=data.draw(st.sampled_from([0.0, 0.03, 0.4])))
    who = door(n, period=period)
    truth = worst_case(tree.strategy(), who).value
    found = tree.bracket(who)
    assert found.lower <= truth * (1 + 1e-12)
    assert truth <= found.upper * (1 + 1e-12)
    if door is not Reshuffled or decoder == "binary":
        assert found.exact
        assert found.value == pytest.approx(truth, rel=1e-11)


def test_the_momentum_of_the_paper():
    """T = 256 steps in epochs of 64, α = 1/64: node weights, and root mean squared noise at ρ = ½."""
    who = Participation.fixed_epochs(256, period=64)
    trees = {decoder: BinaryTree(256, decoder=decoder, decay=1 / 64) for decoder in DECODERS}
    gammas = {decoder: tree.sensitivity(who) for decoder, tree in trees.items()}
    assert gammas["binary"] ** 2 == pytest.approx(19.584459440602, abs=6e-12)
    # The momentum sums (1 − α)^{t−τ} g_τ, of which the tree noises the prefixes.
    ages = np.subtract.outer(np.arange(256), np.arange(256))
    weighted = np.where(ages >= 0, (1 - 1 / 64.0) ** np.maximum(ages, 0), 0.0)
    errors = {
        decoder: gammas[decoder] * math.sqrt(np.square(weighted @ tree.noising_matrix()).sum(axis=1).mean())
        for decoder, tree in trees.items()
    }
    assert errors == pytest.approx({"binary": 7.643952, "online": 6.922220}, abs=6e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BinaryTree(4, decoder="full"), "decoder must be one of"),  # type: ignore[arg-type]
        (lambda: BinaryTree(4, decay=1.5), r"decay must lie in \[0, 1\]"),
        (lambda: BinaryTree(0), "steps must be an integer >= 1"),
        (lambda: BinaryTree(4).noising(np.ones(7)), r"draws must have shape \(4, …\), got \(7,\)"),
        (lambda: BinaryTree(4).sensitivity(Participation.single(5)), "participation must have steps=4"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
