"""A stream of the noise of a program, one array a step, from a generator of NumPy: for simulations and simple loops.

A stream knows no batches, and ends with the process; ``PrivateRun`` has batches and a folder.  It makes the noise of
the program that it is given, and ends with the run that the program covers.  Without a budget its noise has unit scale.

Whoever knows the seed or the generator of a stream can compute its noise and subtract it.  With a budget a stream
therefore takes no integer as a seed.  The generator is an ordinary one of NumPy, which is not cryptographic.  A stream
is not copied, and belongs to one process (``guard``).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.run.batches import check_not_sampled
from corrnoise.simulations.run.engines import Draw, engine, normals_of, step_scale
from corrnoise.simulations.run.guard import Guarded
from corrnoise.support.memory import fits_into_memory
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.privacy import Budget


class Stream(Guarded, Iterator[NDArray[Any]]):
    """An iterator of the noise of a program, for as many steps as its participation has.

    Parameters
    ----------
    program : Program
        The program, ``mechanism.program(participation)`` or ``streaming(mechanism, participation)``.
    shape : int or tuple of int
        Shape of one array of noise, an int or a tuple; ``()`` for scalars.
    budget : Budget, optional
        The privacy budget: the noise is then to be added to the sums of clipped gradients.  None for unit noise,
        which covers nothing, for simulations.
    rng : int, SeedSequence or Generator, optional
        An integer >= 0 or a ``SeedSequence`` for the same noise again, without a budget alone; a ``Generator``, which
        is used as it is, not copied; None for a seed of the operating system.

    Attributes
    ----------
    program, shape : as given
    scale : standard deviation of the independent noise behind the correlated noise
    position : number of arrays made so far

    Raises
    ------
    ValueError
        If an argument is out of its range, the noise does not fit into memory, the program is one of other libraries,
        or batches are sampled and there is a budget.
    TypeError
        If an argument has another type.

    Notes
    -----
    Step t takes its draws as one ``rng.standard_normal(shape)``, so that streams of one seed see the same draws.  The
    form ``"transform"`` makes all draws at its first step.  Arrays have the type of the program.

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.product import AntiPGD
    >>> from corrnoise.theory.participation import Participation
    >>> program = AntiPGD(0.1).program(Participation.single(3))
    >>> stream = Stream(program, (2, 3), budget=Budget(rho=0.5, clip_norm=2.0))
    >>> round(stream.scale, 3)
    3.141
    >>> [noise.shape for noise in stream]
    [(2, 3), (2, 3), (2, 3)]
    """

    def __init__(
        self, program: Program, shape: int | tuple[int, ...], *, budget: Budget | None = None, rng: Seed = None
    ) -> None:
        super().__init__()
        self.program = checks.instance("program", program, Program)
        lengths = shape if isinstance(shape, tuple) else (shape,)
        self.shape = tuple(checks.integer("shape", length, 0) for length in lengths)
        if budget is not None and rng is not None and not isinstance(rng, np.random.Generator):
            raise TypeError(
                f"rng must be None or a Generator whose seed is secret in a private run, got {type(rng).__name__}: "
                "whoever knows the seed can subtract the noise"
            )
        if budget is not None:
            check_not_sampled(program.participation)
        self.scale = 1.0 if budget is None else program.scale(budget)
        self.position = 0
        size = math.prod(self.shape)
        rows = program.participation.length if program.form == "transform" else program.memory + 1
        fits_into_memory("shape", shape, rows * size * np.dtype(program.dtype).itemsize)
        self._rng = generator(rng)
        self._draw = normals_of(self._rng)
        self._engine = engine(program, size)
        self._engine.earlier = self._earlier
        self._states: deque[Any] = deque(maxlen=self._engine.lookback)  # of the generator, before the last steps

    def _earlier(self, step: int) -> Draw:
        """The draw of an earlier step, by a generator in the state before it."""
        again = type(self._rng.bit_generator)()
        again.state = self._states[step - self.position]
        return normals_of(np.random.Generator(again))

    def __next__(self) -> NDArray[Any]:
        with self._alone():
            if self.position == self.program.participation.steps:
                raise StopIteration(f"the stream has made its {self.position} steps")
            with self._making():
                values = np.empty(math.prod(self.shape), self.program.dtype)
                state = self._rng.bit_generator.state if self._engine.lookback else None
                self._engine.step(self._draw, values, self.position)
                self._states.append(state)
                values *= values.dtype.type(step_scale(self.program, self.scale, self.position))
                self.position += 1
            return values.reshape(self.shape)
