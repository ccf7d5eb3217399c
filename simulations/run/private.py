"""A private training run: the batch of each step, and its noise, once each.

    budget = cn.Budget(epsilon=5.0, delta=1e-5, clip_norm=1.0)
    epochs = cn.Participation.fixed_epochs(400, epochs=20)
    run = PrivateRun(budget, epochs, cn.mechanisms.NuFTRL(0.02), size, batches=batches(epochs, 1437, 71))
    for batch in run:
        noisy = run.add_noise(sum_of_clipped_gradients(model, batch))

The run has the noise multiplier of the program that really makes the noise, under the participation that is stated,
which must cover its batches.  It hands out a batch only for a step whose noise is still to come, and noise only for a
batch that was handed out.  Without batches it hands out the numbers of the steps, and the caller keeps the promise.  It
ends with the last step that the multiplier covers.

The noise vector is cut into parts of 65 536 coordinates.  Each has a generator of its own (``keys``), and the parts are
made on several threads.  The state of the noise is a few arrays of the size of the model, one for each pole.

A *state* (``run.state()``) lets the run go on.  It holds the key and the memory of the noise, from which all noise
follows, past and to come: it is as secret as the data.  ``state(secret=False)`` leaves out both, for a key that is kept
in a file; then resuming makes the noise of all earlier steps again.

No step may be released twice.  With a ``journal`` a step that was begun is never begun again: after a clean end the run
goes on bit for bit, after a crash it skips the steps that the journal knows to be begun.  Without one a state is loaded
only with ``discarded=True``, by which the user states that nothing that was computed after this state has been kept or
shown.  Copies of a state that go on separately cannot be noticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run.batches import Batches
from corrnoise.simulations.run.engines import engine, step_scale, streaming
from corrnoise.simulations.run.journal import Journal
from corrnoise.simulations.run.keys import Draws, GeneratorName, RunKey
from corrnoise.support.memory import fits_into_memory
from corrnoise.support.serialise import digest, plain
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_FORMAT = "corrnoise.PrivateRun 1"
_ENDLESS = 2**53  # steps, in place of any number
_PART = 65_536  # coordinates of a part of the noise vector
_IN_USE: WeakValueDictionary[str, PrivateRun] = WeakValueDictionary()  # runs of this process by their key
_CLAIMING = Lock()


class PrivateRun:
    """The batches of a training run and its correlated noise.

    Parameters
    ----------
    budget
        What the whole run may spend, on gradients of which norm.  The standard deviation of the independent noise must
        lie in [1e-30, 1e30], because noise is float32.
    participation
        Who takes part when; the worst case of a random order or of sampled batches counts.
    mechanism
        The noise; one with a long memory is replaced by rational noise (``program.mechanism``).
    size
        Number of parameters of the model, over all arrays.
    batches
        The examples of each step, whose participation must be covered by ``participation``; None for a loop that
        makes its batches itself and keeps the promise.
    key
        The secret key, 16 to 64 bytes that no other run uses; or a file in which it is kept, which needs a journal;
        None for a new one.
    journal, journal_ahead
        File of the journal, or None for none; how many steps one note of it covers.
    generator
        ``"philox"``, or ``"aes"`` (the extra ``secure``).
    dtype
        ``"float32"`` or ``"float64"`` for the memory of the noise; None for the shorter that is proved to do.
    threads
        How many threads make the noise; None for one a core.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, the mechanism or the batches do not fit the participation, or the sensitivity
        is not bounded.

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.product import NuFTRL
    >>> epochs = Participation.fixed_epochs(20, epochs=2)
    >>> run = PrivateRun(Budget(epsilon=2.0, delta=1e-6), epochs, NuFTRL(0.05), 3)
    >>> model = np.zeros(3)
    >>> for step in run:
    ...     total = np.zeros(3)  # the sum of the clipped gradients of the examples of the step
    ...     model -= 0.1 * run.add_noise(total) / 10
    >>> run.position
    20
    """

    def __init__(
        self,
        budget: Budget,
        participation: Participation,
        mechanism: Mechanism,
        size: int,
        *,
        batches: Batches | None = None,
        key: str | os.PathLike[str] | bytes | None = None,
        journal: str | os.PathLike[str] | None = None,
        journal_ahead: int = 1,
        generator: GeneratorName = "philox",
        dtype: Dtype | None = None,
        threads: int | None = None,
    ) -> None:
        self._budget = checks.instance("budget", budget, Budget)
        promised = checks.instance("participation", participation, Participation)
        self._size = checks.integer("size", size, 1)
        self._batches = None if batches is None else checks.instance("batches", batches, Batches)
        if self._batches is not None and not self._batches.participation.covered_by(promised):
            own = self._batches.participation
            raise ValueError(f"batches must be covered by the participation of the run, {promised!r}, got {own!r}")
        self._steps = promised.steps if self._batches is None else self._batches.steps
        self._program = streaming(mechanism, promised, dtype)
        self._multiplier = self._program.multiplier(self._budget)
        self._draws = Draws(RunKey.of(key), generator)
        rows = engine(self._program, 1).memory.shape[0]
        fits_into_memory("size", self._size, self._size * (4 + rows * np.dtype(self._program.dtype).itemsize))
        self._ends = [*range(_PART, self._size, _PART), self._size]
        self._threads = os.cpu_count() or 1 if threads is None else checks.integer("threads", threads, 1)
        self._pool: ThreadPoolExecutor | None = None
        if (path := self._draws.key.path) is not None and journal is None:
            raise ValueError(
                f"journal must be given for the key in {path}: the script, started again, would make the same noise"
            )
        self._journal_path = journal
        self._journal_ahead = checks.integer("journal_ahead", journal_ahead, 1)
        self._journal: Journal | None = None
        self._process = os.getpid()
        self._follows = False
        self._claim()
        self._restart()
        self._skipped = 0
        self._settings = {
            "format": _FORMAT,
            "mechanism": digest(plain(self._program.mechanism)),
            "participation": repr(promised),
            "batches": None if self._batches is None else self._batches.identity,
            "dtype": self._program.dtype,
            "size": self._size,
            "budget": repr(self._budget),
            "multiplier": self._multiplier,
            "generator": self._draws.name,
            "fingerprint": self._draws.fingerprint(),
        }

    def _claim(self) -> None:
        """Refuse a key that another run of this process uses."""
        with _CLAIMING:
            if _IN_USE.setdefault(self._draws.key.identity, self) is not self:
                raise ValueError(f"key must not be in use by another run, got {self._draws.key!r}")

    def _restart(self) -> None:
        """Put the noise before its first step."""
        self._engines: list[Any] = []  # the memory of earlier ones is free before new ones are made
        self._engines = [engine(self._program, size) for size in np.diff(self._ends, prepend=0).tolist()]
        self._position = 0
        self._handed = 0
        self._whole = True

    # -- what the run guarantees ---------------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """The noise that is really made, and the sensitivity that covers it."""
        return self._program

    @property
    def position(self) -> int:
        """Number of steps whose noise was made."""
        return self._position

    @property
    def skipped(self) -> int:
        """Number of steps that were skipped, because a crash had begun them."""
        return self._skipped

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self._size

    @property
    def budget(self) -> Budget:
        """What the run may spend."""
        return self._budget

    @property
    def participation(self) -> Participation:
        """Who takes part when, as the noise covers it."""
        return self.program.participation

    @property
    def batches(self) -> Batches | None:
        """The examples of each step; None where the caller makes the batches."""
        return self._batches

    @property
    def steps(self) -> int | None:
        """Length of the run; None for any length."""
        return self._steps

    @property
    def multiplier(self) -> float:
        """Standard deviation of the independent noise in units of the clip norm."""
        return self._multiplier

    @property
    def scale(self) -> float:
        """Standard deviation of the independent noise behind the correlated noise."""
        return self._multiplier * self._budget.clip_norm

    def epsilon(self, delta: float) -> float:
        """ε of the whole run, which is one Gaussian mechanism, rounded up.

        Parameters
        ----------
        delta
            In (0, 1).
        """
        return self._budget.epsilon_at(delta)

    def in_words(self) -> str:
        """What the run guarantees, in sentences."""
        length = "any number of" if self.steps is None else f"all {self.steps}"
        words = (
            f"The noisy sums of {length} steps are {self._budget.gaussian_rho:.4g}-zCDP as one Gaussian mechanism, for "
            f"{self._budget.adjacency} adjacency and gradients clipped to norm {self._budget.clip_norm:.4g}, with "
            f"{self.participation.in_words()}; the noise multiplier is {self._multiplier:.4g}."
        )
        return words if self._batches is None else f"{words} There are {self._batches.in_words()}."

    # -- batches and noise ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of steps to come."""
        if self.steps is None:
            raise TypeError("a run of any length has no number of steps to come")
        return self.steps - self.position

    def __iter__(self) -> Iterator[Any]:
        """The batches of the steps to come, numbers of examples; without batches the numbers of the steps."""
        self._handed = self.position  # a batch that an earlier loop left is handed out again
        while True:
            batch = self.next_batch()
            step = self.position
            yield batch
            if self.position != step + 1:
                raise RuntimeError(f"step {step} has got no noise, or another loop uses this run")
            if self.position == self.steps:
                return

    def next_batch(self) -> Any:
        """The batch of the next step, whose noise is then to be made; the number of the step without batches.

        Raises
        ------
        RuntimeError
            All steps were made, or the batch that was handed out last has got no noise.
        """
        step = self.start()
        if step == self.steps:
            raise RuntimeError(f"the run has made its {self.steps} steps: a further epoch is not covered by its noise")
        if self._handed > step:
            raise RuntimeError(f"the batch of step {step} has got no noise: noise is added once to each batch")
        self._handed = step + 1
        return step if self._batches is None else self._batches.batch(step)

    def follow(self, position: int) -> None:
        """Leave the noise to another process of a distributed run, and take its position.

        Parameters
        ----------
        position
            What ``start`` returned in the process that makes the noise.
        """
        self._position = checks.integer("position", position, 0, largest=self.steps or _ENDLESS)
        self._handed = self.position
        self._follows = True

    def pass_step(self) -> None:
        """Note that another process has added the noise of the batch that was handed out last."""
        if not self._follows or self._handed <= self.position:
            raise RuntimeError("only a step of a run that follows another process can pass without noise")
        self._position += 1

    def start(self) -> int:
        """Open the journal, if there is one, skip the steps that a crash has begun, and return ``position``."""
        if self._journal is None and self._journal_path is not None and not self._follows:
            self._journal = Journal(self._journal_path, self._draws.key, ahead=self._journal_ahead)
            self._skip()
        return self.position

    def _skip(self) -> None:
        """Go on with the first step that the journal does not know to be begun."""
        before = self.position
        if self._journal is not None:
            self._advance(self._journal.free)
        self._skipped += self.position - before

    def noise(self) -> NDArray[np.float32]:
        """The noise of the next step, to be added to the sum of its clipped gradients, shape (size,).

        Raises
        ------
        RuntimeError
            All steps were made, no batch of the run was handed out for this step, or another process uses the run.
        """
        self.start()
        self._check_whole()
        if self.position == self.steps:
            raise RuntimeError(f"the run has made its {self.steps} steps: a further step is not covered by its noise")
        if self._batches is not None and self._handed <= self.position:
            raise RuntimeError(f"no batch was handed out for step {self.position}: noise is added once to each batch")
        if self._journal is not None:
            self._journal.begin(self.position)
        return self._made()

    def add_noise(self, total: NDArray[Any]) -> NDArray[Any]:
        """The sum of the clipped gradients of a step plus its noise.

        Parameters
        ----------
        total
            The sum over the batch that was handed out last, shape (size,).
        """
        values = np.asarray(total)
        if values.shape != (self._size,) or values.dtype.kind != "f" or values.dtype.itemsize < 4:
            raise ValueError(
                f"total must be a vector of {self._size} floats of 32 bits or more, got shape {values.shape} of "
                f"{values.dtype}"
            )
        return values + self.noise()

    def _check_whole(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("a run must not be used by a copy of its process: both would add the same noise")
        if not self._whole:
            raise RuntimeError("the run is closed, or making noise was interrupted: load the last state")
        if self._follows:
            raise RuntimeError("the noise and its state are those of the process that this run follows")

    def _made(self) -> NDArray[np.float32]:
        """The noise of the step ``position``, which is then past."""
        step = self.position
        scale = step_scale(self._program, self.scale, step)
        made = np.empty(self._size, np.float32)
        in_place = self._program.dtype == "float32"

        def part(number: int) -> None:
            end = self._ends[number]
            target = made[number * _PART : end]
            values = target if in_place else np.empty(target.size)
            self._engines[number].step(self._draws.normals(step, number), values, step)
            np.multiply(values, values.dtype.type(scale), out=target, casting="same_kind")

        self._whole = False
        if len(self._ends) == 1 or self._threads == 1:
            for number in range(len(self._ends)):
                part(number)
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "corrnoise-noise")
            list(self._pool.map(part, range(len(self._ends))))
        self._position = step + 1
        self._whole = True
        return made

    def _advance(self, step: int) -> None:
        """Bring the memory of the noise to a step; the noise in between is not used."""
        while self.position < step and self.position != self.steps:
            self._made()
        self._handed = self.position

    # -- states --------------------------------------------------------------------------------------------------------

    def state(self, *, secret: bool = True) -> dict[str, Any]:
        """All that ``load_state`` needs, as plain values and one array.

        Parameters
        ----------
        secret
            Whether the state holds the key and the memory of the noise, shape (rows, size).  Then it is as secret as
            the data.  Without them it takes a run with the same key, which makes all earlier noise again.
        """
        self._check_whole()
        state = self._settings | {"position": self.position, "key_identity": self._draws.key.identity}
        if secret:
            memory = np.concatenate([engine.memory for engine in self._engines], axis=1)
            state |= {"key": self._draws.key.secret().hex(), "memory": memory}
        return state

    def load_state(self, state: dict[str, Any], *, discarded: bool = False) -> None:
        """Go on where a state was taken, or after the steps that the journal knows to be begun.

        Parameters
        ----------
        state
            The state, which ``state`` of a run with the same arguments returned.
        discarded
            True states that nothing that was computed after this state has been kept or shown.  It is needed where
            there is no journal, or one that was begun later.

        Raises
        ------
        ValueError
            The state belongs to another run, or to one with other arguments; or there is no journal that knows the
            steps after it, and ``discarded`` is False.
        """
        position, key = self._checked_state(state)
        if self._journal is not None and key.identity != self._draws.key.identity:
            raise ValueError("state must be loaded before the first step")
        if key.identity != self._draws.key.identity:
            with _CLAIMING:
                _IN_USE.pop(self._draws.key.identity, None)
            self._draws = Draws(key, self._draws.name)
            self._claim()
        journal = self._journal
        if journal is None and self._journal_path is not None:
            journal = Journal(self._journal_path, key, ahead=self._journal_ahead)
        if not checks.boolean("discarded", discarded) and (journal is None or journal.free < position):
            if journal is not None and journal is not self._journal:
                journal.close()
            raise ValueError(
                f"discarded must be True to load a state of step {position} without a journal that knows it: whoever "
                "keeps or shows anything that was computed after this state must not continue it"
            )
        self._restart()
        if "memory" in state:
            memory = np.asarray(state["memory"])
            for engine, end in zip(self._engines, self._ends, strict=True):
                part = memory[:, end - engine.memory.shape[1] : end]
                engine.memory = np.array(part, engine.memory.dtype)
            self._position = position
            self._handed = position
        self._advance(position)
        self._journal = journal
        self._skip()

    def _checked_state(self, state: object) -> tuple[int, RunKey]:
        """The position and the key of a state of this run."""
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise ValueError(f"state must come from PrivateRun.state() of format {_FORMAT!r}, got {state!r:.80}")
        for name, own in self._settings.items():
            if state.get(name) != own:
                raise ValueError(f"state must have {name}={own!r} as this run, got {state.get(name)!r:.80}")
        position = checks.integer("position", state.get("position"), 0, largest=self.steps or _ENDLESS)
        if "key" not in state:
            if state.get("key_identity") != self._draws.key.identity:
                raise ValueError(f"state must be that of the key {self._draws.key!r}, which it does not hold")
            return position, self._draws.key
        shape = (self._engines[0].memory.shape[0], self._size)
        if (found := np.shape(state.get("memory", ()))) != shape:
            raise ValueError(f"state must hold a memory of shape {shape}, got {found}")
        return position, RunKey(bytes.fromhex(state["key"]))

    def close(self) -> None:
        """End cleanly: the next run with this key and journal goes on with the next step."""
        if self._journal is not None:
            self._journal.close()
        if self._pool is not None:
            self._pool.shutdown()
        with _CLAIMING:
            if _IN_USE.get(self._draws.key.identity) is self:
                del _IN_USE[self._draws.key.identity]
        self._whole = False

    def __enter__(self) -> PrivateRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refused, as two copies would add the same noise."""
        raise TypeError("a private run must not be copied: both would add the same noise; state() saves it")

    def __repr__(self) -> str:
        return (
            f"PrivateRun({self._budget!r}, {self.participation!r}, {self._program.mechanism!r:.60}, size={self._size}, "
            f"position={self.position} of {self.steps}, multiplier={self._multiplier!r})"
        )
