"""Clipping gradients that stay in factors ("ghost clipping"), with proved norms and sums (the extra ``torch``).

The gradient of an example at a weight matrix is Σ_l b_l a_lᵀ over L positions l, where a_l is the input of the layer
and b_l the gradient at its output.  Its squared norm is

    N = Σ_{l,m} (a_l·a_m)(b_l·b_m),

so norms and clipped sums need products of matrices, and no gradient of one example.  N cancels: in plain float32 it can
be zero for a gradient of any norm.  The bounds below hold in every order of additions, and where subnormal numbers are
flushed to zero; docs/ghost-clipping-proofs.md has the proofs.

*Norms.*  Gram matrices are formed in float32 in blocks of 1024 features and added in float64, N̂ and κ̂ = Σ_l |a_l||b_l|
in float64.  Then |N̂ − N| <= ε κ̂² + α, so N⁺ = N̂ + ε κ̂² + α is never too small.  Where ε κ̂² + α exceeds a hundredth of
N⁺, the example takes its norm from float64.

*Sums.*  Σ_i f_i Σ_l b_il a_ilᵀ is added in float32 over blocks of c examples and ℓ positions, and blocks in float64.
With f_i κ_i <= K G, two sums of neighbouring data differ by rounding by at most r G,

    r = 2 γ³²(cℓ + 2) c K + 2 γ⁶⁴(R) (1 + γ³²) B K,   K = max(1, 2√L),

for R blocks and batches of at most B examples.  Gradients are clipped to (1 − 10⁻⁴ − r) G.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Grid, add_floats, fill_nearest
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks

FEATURE_BLOCK = 1024  #: features whose products are added in float32
ROUNDING_SHARE = 5e-4  #: largest r, of the clipping norm
UNDERFLOW_SHARE = 1e-6  #: of the clipping norm, what products that underflow may add
SUMMED_AT_ONCE = 2**16  #: numbers of a sum on the host
PRECISE_SHARE = 0.01  #: of N⁺, above which an example takes its norm from float64
_UNIT_ROUNDOFFS = {"float32": 2.0**-24, "float64": 2.0**-53}


class Factors(NamedTuple):
    """The gradients of examples at a weight matrix, Σ_l b_l a_lᵀ for each example."""

    a: Any  #: inputs, shape (B, L, p); for an embedding the indices, shape (B, L)
    b: Any  #: gradients at the outputs, shape (B, L, q)
    kind: str  #: "linear", "transposed" or "embedding": the weight has the shape (q, p), (p, q) or (rows, q)
    weight: Any = None  #: whose shape and device a sum has

    @classmethod
    def of(cls, weight: Any, uses: Sequence[Any], given: Sequence[Any], shifted: Sequence[Any]) -> Factors:
        """The factors of a weight from all expected uses, side by side; the gradient of unused ones is zero.

        ``given`` are the inputs of these uses, and ``shifted`` the gradients at their outputs.
        """
        torch = extra_module("torch", "torch")
        kind = uses[0].kind
        inputs, gradients = [], []
        for use, a, b in zip(uses, given, shifted, strict=False):
            rows = len(b)
            b = b.reshape(rows, -1, b.shape[-1])
            a = a.reshape(rows, -1) if kind == "embedding" else a.reshape(rows, -1, a.shape[-1])
            if use.padding is not None:
                b = b.masked_fill((a == use.padding).unsqueeze(-1), 0.0)
            inputs.append(a)
            gradients.append(b)
        if not inputs:
            like = shifted[0]
            empty = like.new_empty((len(like), 0, 0)) if kind != "embedding" else like.new_empty((len(like), 0)).long()
            return cls(empty, like.new_empty((len(like), 0, like.shape[-1])), kind, weight)
        if len(inputs) > 1:
            inputs, gradients = [torch.cat(inputs, 1)], [torch.cat(gradients, 1)]
        return cls(inputs[0], gradients[0], kind, weight)

    @property
    def positions(self) -> int:
        """L, the positions of an example."""
        return int(self.b.shape[1])

    def kept(self, counts: Any) -> Factors:
        """The factors with zeros for the examples that do not count."""
        if bool(counts.all()):
            return self
        wide = counts.to(self.b.device).view(-1, 1, 1)
        a = self.a if self.kind == "embedding" else self.a.where(wide, 0.0)
        return self._replace(a=a, b=self.b.where(wide, 0.0))


class Norms(NamedTuple):
    """Upper bounds for some examples."""

    squares: Any  #: N⁺, at least the squared norm, float64
    kappa_squares: Any  #: of κ², float64
    largest: Any  #: max(1, |a|, |b|)


def gamma(count: int, dtype: str = "float64") -> float:
    """The bound n u/(1 − n u) of the relative error of n operations, n below 1/u."""
    unit = _UNIT_ROUNDOFFS[dtype]
    if not count * unit < 1:
        raise ValueError(f"count must be below {1 / unit:.3g} operations of {dtype}, got {count}")
    return count * unit / (1 - count * unit)


# -- norms -------------------------------------------------------------------------------------------------------------


def norms_of(factors: Factors) -> Norms:
    """Upper bounds of the squared norms of the gradients at a weight matrix; not finite where the factors are not.

    Factors are of float32 or shorter: the squares of float64 may vanish.
    """
    torch = extra_module("torch", "torch")
    for name, each in (("a", factors.a), ("b", factors.b)):
        if each.is_floating_point() and each.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise ValueError(f"{name} must be of float32, bfloat16 or float16, got {each.dtype}")
    rows, positions = factors.b.shape[:2]
    if not positions:
        zero = factors.b.new_zeros(rows, dtype=torch.float64)
        return Norms(zero, zero, zero + 1)
    short = norms_in(factors, "float32")
    precise = ~(short.squares - short.least <= PRECISE_SHARE * short.squares)
    if bool(precise.any()):
        long = norms_in(factors, "float64")
        squares = torch.where(precise, long.squares, short.squares)
        return Norms(squares, torch.where(precise, long.kappa_squares, short.kappa_squares), short.largest)
    return Norms(short.squares, short.kappa_squares, short.largest)


class _Computed(NamedTuple):
    squares: Any
    kappa_squares: Any
    largest: Any
    least: Any  #: N̂


def norms_in(factors: Factors, dtype: str) -> _Computed:
    """Bounds with Gram matrices that were formed in float32, or in float64."""
    torch = extra_module("torch", "torch")
    a, b = factors.a, factors.b.to(getattr(torch, dtype))
    positions, outputs = b.shape[1:]
    inputs, of_inputs, largest_a, gamma_a = 1, None, 1.0, 0.0
    if factors.kind == "embedding":
        of_inputs = (a.unsqueeze(2) == a.unsqueeze(1)).double()
    else:
        a = a.to(getattr(torch, dtype))
        inputs, of_inputs, gamma_a = a.shape[2], _gram(a), _gram_error(a.shape[2], dtype)
        largest_a = a.abs().flatten(1).amax(1).double().clamp(min=1.0)
    of_outputs, gamma_b = _gram(b), _gram_error(outputs, dtype)
    largest_b = b.abs().flatten(1).amax(1).double().clamp(min=1.0)
    underflow = 0.0 if dtype == "float64" else 2.0**-122 * positions**2 * inputs * outputs
    alpha = underflow * (largest_a * largest_b) ** 2
    tau_a = 0.0 if dtype == "float64" or factors.kind == "embedding" else inputs * 2.0**-124 * largest_a
    tau_b = 0.0 if dtype == "float64" else outputs * 2.0**-124 * largest_b
    squares_a = of_inputs.diagonal(dim1=1, dim2=2) + (tau_a if isinstance(tau_a, float) else tau_a[:, None])
    squares_b = of_outputs.diagonal(dim1=1, dim2=2) + (tau_b if isinstance(tau_b, float) else tau_b[:, None])
    kappa = (squares_a * squares_b).sqrt().sum(1).square()
    least_share = (1 - gamma_a) * (1 - gamma_b)
    error = ((1 + gamma_a) * (1 + gamma_b) - 1) / least_share + (positions**2 + 4) * 2 * _UNIT_ROUNDOFFS["float64"]
    found = (of_inputs * of_outputs).sum((1, 2))
    largest = torch.maximum(largest_b, torch.as_tensor(largest_a, dtype=torch.float64, device=b.device))
    return _Computed(found + error * kappa + alpha, kappa / least_share * (1 + error), largest, found)


def _gram(values: Any) -> Any:
    """The products of all pairs of positions, float64, shape (B, L, L)."""
    if values.dtype == extra_module("torch", "torch").float64:
        return values @ values.mT
    blocks = values.split(FEATURE_BLOCK, 2)
    total = (blocks[0] @ blocks[0].mT).double()
    for block in blocks[1:]:
        total += block @ block.mT
    return total


def _gram_error(features: int, dtype: str) -> float:
    """The relative error of a diagonal of ``_gram``, and of other entries in units of the diagonals."""
    if dtype == "float64":
        return gamma(features)
    inside = gamma(min(features, FEATURE_BLOCK), "float32")
    return inside + gamma(-(-features // FEATURE_BLOCK)) * (1 + inside)


# -- sums --------------------------------------------------------------------------------------------------------------


class Blocks(NamedTuple):
    """How a sum of factors is added."""

    examples: int  #: c of a block
    positions: int  #: ℓ of a block
    dtype: str  #: "float32" or "float64", the arithmetic of a block
    ratio: float  #: K, the largest f κ in units of the clipping norm
    rounding: float  #: r, in clipping norms: how far rounding can move two sums of neighbouring data apart


def blocks_of(largest_batch: int, positions: int, dtype: str = "float32") -> Blocks:
    """The largest blocks whose rounding moves sums by at most ``ROUNDING_SHARE`` of the clipping norm.

    Batches have at most ``largest_batch`` examples, and a weight at most L ``positions``.  Float64 has one block, and
    covers additions whose order depends on the batch.  A batch that is too large for every block is a ``ValueError``.
    """
    length = max(positions, 1)
    ratio = max(1.0, 2 * math.sqrt(length))
    if dtype == "float64":
        rounding = 2 * gamma(largest_batch * (length + 1) + 2) * largest_batch * ratio
        if rounding <= ROUNDING_SHARE:
            return Blocks(largest_batch, length, dtype, ratio, rounding)
    else:
        block, part = largest_batch, length
        while True:
            count = -(-largest_batch // block) * -(-length // part)
            inside = gamma(block * part + 2, "float32") if (block * part + 2) * 2.0**-24 < 0.5 else math.inf
            added = max(count, largest_batch * (length + 1) + 2)  # of blocks, or of rows of an embedding
            rounding = 2 * inside * block * ratio + 2 * gamma(added) * (1 + inside) * largest_batch * ratio
            if rounding <= ROUNDING_SHARE:
                return Blocks(block, part, dtype, ratio, rounding)
            if block == part == 1:
                break
            block, part = (-(-block // 2), part) if block > 1 else (1, -(-part // 2))
    raise ValueError(
        f"batches of {largest_batch} examples with {positions} positions each are too large for clipping='ghost': "
        "choose a smaller batch or capacity, or clipping='example'"
    )


def clip_factors(
    gradients: Sequence[Any], squared_norms: Any, clip_norm: float, blocks: Blocks, counts: Any
) -> tuple[Any, Any]:
    """The clipping factors f_i, float32, and upper bounds of the norms, float64.

    The squared norms at all other parameters are float64, too small by at most 6.2e-5.  A factor is zero for examples
    that do not count or whose gradient is not finite.
    """
    torch = extra_module("torch", "torch")
    device = squared_norms.device
    found = [Norms(*(part.to(device) for part in norms_of(each))) for each in gradients]
    squares = squared_norms + sum(each.squares for each in found)
    kappa = squared_norms + sum(each.kappa_squares for each in found)
    whole = torch.isfinite(squares) & torch.isfinite(kappa) & counts
    if gradients:
        largest = torch.stack([each.largest for each in found]).amax(0)
        numbers = sum(
            each.a.shape[-1] * each.b.shape[-1] if each.a.dim() == 3 else each.b.shape[-1] for each in gradients
        )
        positions = max(each.positions for each in gradients)  # of all blocks that an example is in
        lost = 2.0**-122 * blocks.examples * positions * math.sqrt(numbers)
        whole &= lost * largest <= UNDERFLOW_SHARE * clip_norm
    factors = (clip_norm * (MARGIN - blocks.rounding) / squares.sqrt()).clamp(max=1.0)
    factors = torch.minimum(factors, clip_norm * blocks.ratio / kappa.sqrt())
    factors = torch.where(whole, factors, 0.0)
    short = factors.float()
    return torch.where(short.double() > factors, torch.nextafter(short, short.new_zeros(())), short), squares.sqrt()


def summed(gradient: Factors, factors: Any, blocks: Blocks, grid: Grid | None = None) -> Any:
    """The sum of clipped gradients at a weight matrix: float64, or the nearest integers of a grid.

    On the host some rows of the sum are made at once, so that they stay in the cache.
    """
    torch = extra_module("torch", "torch")
    like = gradient.weight
    kept, scale = gradient.kept(factors > 0), factors.to(like.device)
    empty = not (kept.a.numel() and kept.b.numel())
    if gradient.kind == "embedding" or empty:
        total = torch.zeros(like.shape, dtype=torch.float64, device=like.device)
        if not empty:  # f and b have 24 bits each, so their product is exact
            rows = (scale.double()[:, None, None] * kept.b.double()).flatten(0, 1)
            total.index_add_(0, kept.a.flatten(), rows)
        return rounded(total, grid)
    dtype = getattr(torch, blocks.dtype)
    first, second = scale.to(dtype)[:, None, None] * kept.b.to(dtype), kept.a.to(dtype)
    if gradient.kind == "transposed":
        first, second = second, first
    kind = torch.float64 if grid is None else getattr(torch, grid.dtype)
    found = torch.empty(like.shape, dtype=kind, device=like.device)
    on_host = like.device.type == "cpu"
    height = max(min(SUMMED_AT_ONCE // like.shape[1], len(like)) if on_host else len(like), 1)
    products = torch.empty((height, like.shape[1]), dtype=dtype, device=like.device)
    totals = torch.empty_like(products, dtype=torch.float64)
    parts = [
        (slice(some, some + blocks.examples), slice(place, place + blocks.positions))
        for some in range(0, len(first), blocks.examples)
        for place in range(0, kept.positions, blocks.positions)
    ]
    pairs = [(first[part].flatten(0, 1).mT, second[part].flatten(0, 1)) for part in parts]
    for top in range(0, len(like), height):
        rows = found[top : top + height]
        product, total = products[: len(rows)], totals[: len(rows)]
        for number, (left, right) in enumerate(pairs):
            torch.mm(left[top : top + height], right, out=product)
            if number == 0:
                total.copy_(product)
            elif on_host:
                add_floats(total.view(-1).numpy(), product.view(-1).numpy())
            else:
                total += product
        _fill(rows, total, grid)
    return found


def clip_norm_of_sums(run: PrivateRun) -> float:
    """The clipping norm of gradients: the one of the run less what rounding to its grid can add, at most its half."""
    norm = run.budget.clip_norm
    if run.grid is None:
        return norm
    lost = run.ranks.count * run.grid.unit * math.sqrt(run.size)
    if not lost <= norm / 2:
        raise ValueError(
            f"the grid of exact sums must be finer for clipping='ghost': rounding {run.size} parameters to it moves a "
            f"sum by {lost:.3g}, and the clip norm is {norm:.3g}: take sums='float32', release='float'"
        )
    return norm - lost * (1 + 1e-9)


def rounded(total: Any, grid: Grid | None) -> Any:
    """A sum of floats as the nearest integers of a grid; integers, and sums without a grid, stay as they are."""
    torch = extra_module("torch", "torch")
    if grid is None or not total.is_floating_point():
        return total
    return _fill(torch.empty_like(total, dtype=getattr(torch, grid.dtype)), total, grid)


def _fill(found: Any, total: Any, grid: Grid | None) -> Any:
    """Fill a tensor with a sum of floats, or with its nearest integers of a grid."""
    if grid is None:
        return found.copy_(total)
    if total.device.type != "cpu":
        return found.copy_((total / grid.unit).round_())
    fill_nearest(total.view(-1).numpy(), grid.unit, found.view(-1).numpy())
    return found


def check_clip_norm(clip_norm: float) -> float:
    """Refuse a clipping norm so small that squares which vanish would count."""
    return checks.real("clip_norm", clip_norm, "[1e-9, inf)")
