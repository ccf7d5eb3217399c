"""Axes of errors over memory, and the legend of hollow markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOLLOW = "hollow: upper bound"
MEMORY_LABEL = "Memory: buffers of the size of the model"
_MAX_SMALL_MEMORY = 8  # buffers up to which each number has a label
_MIN_ERROR_LABELS = 3  # of a logarithmic axis: fewer look like a linear one


def scale_memory(ax: Axes, most: float) -> None:
    """A horizontal axis of 0 to ``most`` buffers, linear up to 1 and logarithmic above."""
    from matplotlib.ticker import NullLocator

    ax.set_xscale("symlog", linthresh=1, linscale=0.4)
    ax.set_xlim(-0.25, 1.7 * max(most, 1.0))
    powers = [0, *(10**i for i in range(7) if 10**i <= 1.2 * most)]
    ticks = list(range(int(most) + 1)) if most <= _MAX_SMALL_MEMORY else powers
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())


def scale_errors(ax: Axes) -> None:
    """A logarithmic vertical axis with at least three labels."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1e4 * low else (1,), numticks=12))
    if sum(low <= tick <= high for tick in ax.yaxis.get_majorticklocs()) < _MIN_ERROR_LABELS:
        inside = [tick for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]
        ax.yaxis.set_major_locator(FixedLocator(inside))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_locator(NullLocator())


def hollow_marker() -> Any:
    """The entry of a legend that explains hollow markers."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": "black", "markerfacecolor": "white", "markersize": 4.5}
    return Line2D([], [], marker="s", linestyle="none", label=HOLLOW, **look)
