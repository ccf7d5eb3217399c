"""How far one example can move the message of a machine: the correction s_t of the gradient estimate.

In round t a machine with the example z sends noise and the correction

    s_t = t ∇f(x_t; z) − (t − 1) ∇f(x_{t−1}; z),        x_t − x_{t−1} = (2/(t+1)) (w_t − x_{t−1}),

with w_t, x_{t−1} in a convex set K of diameter D, and losses that are G-Lipschitz and L-smooth on K.  The server's rule
gives (t − 1) ‖x_t − x_{t−1}‖ <= 2D (t−1)/(t+1), hence

* ‖s_t‖ <= S_t = G + 2LD (t−1)/(t+1);
* ‖s_t(z) − s_t(z')‖ <= 2 R_t with R_t = G + LD (t−1)/(t+1), if the losses are convex, and 2 S_t, if they are not.

All three are attained.  The paper has S = G + 2LD in place of S_t and 2S in place of 2R_t (Lemma 4.2), which is larger.
The bounds hold for a server that follows its rule.  Against any other, machines clip (``simulations``).

Source: Reshef and Levy, ICML 2025: Lemma 4.2 and its proof in Appendix D.2.
"""

from __future__ import annotations

from typing import Literal

from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record

Losses = Literal["convex", "smooth"]
LOSSES = ("convex", "smooth")
_SIZE_INTERVAL = "(0, 1e100]"


@record
class LossClass(Record):
    """Losses that are G-Lipschitz and L-smooth on a convex set of diameter D.

    Parameters
    ----------
    lipschitz : float
        G, the largest norm of a gradient, in (0, 1e100].
    smoothness : float
        L, the Lipschitz constant of the gradients, in (0, 1e100].
    diameter : float
        D, in (0, 1e100].
    """

    lipschitz: float
    smoothness: float
    diameter: float

    def __post_init__(self) -> None:
        self._check(lipschitz=_SIZE_INTERVAL, smoothness=_SIZE_INTERVAL, diameter=_SIZE_INTERVAL)

    @classmethod
    def of(cls, loss: LinearLoss, diameter: float) -> LossClass:
        """G, L and D of a loss on a ball about 0.

        Parameters
        ----------
        loss : LinearLoss
            The loss.
        diameter : float
            Of the ball, in (0, 1e50].

        Returns
        -------
        LossClass
        """
        diameter = checks.real("diameter", diameter, "(0, 1e50]")
        return cls(loss.lipschitz(diameter / 2), loss.smoothness, diameter)

    @property
    def published_norm(self) -> float:
        """S = G + 2LD, the published bound of ‖s_t‖, above S_t for every t."""
        return self.lipschitz + 2 * self.smoothness * self.diameter

    @property
    def radius(self) -> float:
        """R = G + LD, above R_t for every t."""
        return self.lipschitz + self.smoothness * self.diameter

    def correction_norm(self, rounds: ArrayLike) -> Array:
        """S_t = G + 2LD (t−1)/(t+1), the largest ‖s_t‖.

        Parameters
        ----------
        rounds : array_like
            t >= 1, any shape.

        Returns
        -------
        array of the same shape
        """
        t = checks.reals("rounds", rounds, "[1, inf)")
        return self.lipschitz + 2 * self.smoothness * self.diameter * ((t - 1) / (t + 1))

    def correction_radius(self, rounds: ArrayLike) -> Array:
        """R_t = G + LD (t−1)/(t+1), the radius of a ball that holds every s_t of convex losses.

        Parameters
        ----------
        rounds : array_like
            t >= 1, any shape.

        Returns
        -------
        array of the same shape
        """
        t = checks.reals("rounds", rounds, "[1, inf)")
        return self.lipschitz + self.smoothness * self.diameter * ((t - 1) / (t + 1))

    def shifts(self, rounds: ArrayLike, *, losses: Losses) -> Array:
        """The largest ‖s_t(z) − s_t(z')‖ over two examples: 2 R_t of convex losses, 2 S_t of smooth ones.

        Parameters
        ----------
        rounds : array_like
            t >= 1, any shape.
        losses : {"convex", "smooth"}
            The kind of the losses; the caller vouches for it.

        Returns
        -------
        array of the same shape
        """
        convex = checks.choice("losses", losses, LOSSES) == "convex"
        return 2 * (self.correction_radius(rounds) if convex else self.correction_norm(rounds))

    def largest_shift(self, *, losses: Losses) -> float:
        """The supremum of ``shifts`` over all rounds: 2(G + LD) of convex losses, 2(G + 2LD) of smooth ones.

        Parameters
        ----------
        losses : {"convex", "smooth"}
            The kind of the losses; the caller vouches for it.

        Returns
        -------
        float
        """
        return 2 * (self.radius if checks.choice("losses", losses, LOSSES) == "convex" else self.published_norm)
