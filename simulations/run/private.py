"""A private training run: the batch of each step, and its noise, once each, also through crashes.

    budget = cn.Budget(epsilon=5.0, delta=1e-5, clip_norm=1.0)
    epochs = cn.Participation.fixed_epochs(400, epochs=20)
    order = batches(epochs, 1437, 71)
    with PrivateRun(budget, epochs, cn.mechanisms.NuFTRL(0.02), size, batches=order, folder="digits") as run:
        for batch in run:
            noisy = run.add_noise(sum_of_clipped_gradients(model, batch))

The run has the noise multiplier of the program that really makes the noise, under the participation that is stated,
which must cover its batches.  It hands out a batch only for a step whose noise is still to come, and noise only for a
batch that was handed out.  Without batches it hands out the numbers of the steps, and the caller keeps the promise.  It
ends with the last step that the multiplier covers.

With a ``folder`` the same command begins the run, goes on with it after a crash, and does nothing once it is finished.
A step that was begun before a crash is not begun again; with kept releases its noisy sum is returned again, otherwise
it is skipped.  This is covered: a gradient may be taken at any earlier model.  Without a folder nothing survives.

==========  ==============  ===============================================  ===========================
state       event           condition                                        next
==========  ==============  ===============================================  ===========================
ready       next batch      steps are left                                   handed
ready       next batch      none is left                                     finished
handed      add_noise       the sum is sound                                 ready, one step on
handed      an exception    while the step is noted or the noise is made     broken: only ``close``
ready       close                                                            closed for ever
finished    iterate                                                          finished, without a batch
any         any             another process, a copy                          refused
==========  ==============  ===============================================  ===========================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from io import BytesIO
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import Batches
from corrnoise.simulations.run.engines import TOLERANCE, step_scale, streaming
from corrnoise.simulations.run.folder import Arrays, Folder, Home, check_agreement
from corrnoise.simulations.run.guard import Guarded
from corrnoise.simulations.run.noise import ModelNoise
from corrnoise.simulations.run.termination import Termination
from corrnoise.support.serialise import digest, packed, plain, unpacked
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.rounding import UNITS, Dtype
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_FORMAT = "corrnoise run 1"
_ENDLESS = 2**53  # steps, in place of any number
_SLACK = 1e-3  # of the norm of a sum, for the rounding errors of clipping and adding
_COARSEST = 2.0**-10  # rounding error of a sum, in standard deviations of the noise
_MOST_KEPT = 256e6  # bytes of kept releases between two checkpoints
_TERMINATED = 143  # exit status after SIGTERM


class Carry(Protocol):
    """What a checkpoint holds besides the memory of the noise: the model, the state of its optimizer, and so on."""

    def save(self) -> Arrays:
        """Arrays by their names, as they are between two steps."""

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Go on from what ``save`` returned."""


class PrivateRun(Guarded):
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
    folder
        Where the run is kept, a path or a ``Folder``: the same command then begins the run or goes on with it.  None
        for a run that ends with the process.
    carry
        What checkpoints hold besides the noise, usually the model and its optimizer: ``save()`` returns arrays by
        their names, and ``load(arrays)`` goes on from them.  It is called between two steps.
    dtype
        ``"float32"`` or ``"float64"`` for the memory of the noise; None for the shorter that is proved to do.
    threads
        How many threads make the noise; None for one a core.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, the mechanism or the batches do not fit the participation, the sensitivity is
        not bounded, or the folder is damaged, outdated, a copy, or that of a run with other settings.
    BlockingIOError
        Another run uses the folder.

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
        folder: str | os.PathLike[str] | Folder | None = None,
        carry: Carry | None = None,
        dtype: Dtype | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__()
        self._budget = checks.instance("budget", budget, Budget)
        promised = checks.instance("participation", participation, Participation)
        asked = checks.instance("mechanism", mechanism, Mechanism)  # type: ignore[type-abstract]
        self._size = checks.integer("size", size, 1)
        self._batches = None if batches is None else checks.instance("batches", batches, Batches)
        if self._batches is not None and not self._batches.participation.covered_by(promised):
            own = self._batches.participation
            raise ValueError(f"batches must be covered by the participation of the run, {promised!r}, got {own!r}")
        self._steps = promised.steps if self._batches is None else self._batches.steps
        self._carry = carry
        self._position = self._saved = self._begun = self._noted = self._skipped = self._examples = 0
        self._handed = self._follows = self._closed = self._finished = self._keeps = False
        self._nonces: dict[int, bytes] = {}
        self._termination = Termination()
        where = folder if folder is None or isinstance(folder, Folder) else Folder(folder)
        if where is None and carry is not None:
            raise ValueError("folder must be given where there is something to carry")
        self._home = None if where is None else Home(where)
        try:
            self._open(promised, asked, dtype, threads, where)
        except BaseException:
            if self._home is not None:
                self._home.close()
            raise

    # -- the folder ----------------------------------------------------------------------------------------------------

    def _open(
        self,
        promised: Participation,
        asked: Mechanism,
        dtype: Dtype | None,
        threads: int | None,
        where: Folder | None,
    ) -> None:
        """Make the noise, of a new run or where the folder has it."""
        home = self._home
        if home is None or where is None:
            self._secret = draws.fresh(draws.KEY_BYTES)
            self._make(streaming(asked, promised, dtype), threads)
            return
        self._ahead = where.ahead
        self._every = where.checkpoint_every or _interval(promised)
        self._keeps = self._keeping(where, home.settings)
        if home.settings is None:
            program = streaming(asked, promised, dtype)
            self._make(program, threads)
            files = {} if _is_asked(asked) else {"noise.npz": packed(program.mechanism, KINDS)}
            home.begin(self._settings(promised, asked) | self._found(), files | self._order_file(), self._kept())
            self._secret = home.secret
            return
        self._take_order(home)
        check_agreement(home.settings, self._settings(promised, asked))
        if not _is_asked(asked):
            asked = unpacked(home.file("noise.npz"), KINDS, name=str(home.path / "noise.npz"))
        self._make(streaming(asked, promised, dtype or home.settings["arithmetic"]), threads)
        check_agreement(home.settings, self._settings(promised, None) | self._found())
        self._secret = home.secret
        home.go_on()
        self._go_on(home)

    def _make(self, program: Program, threads: int | None) -> None:
        self._program = program
        self._multiplier = program.multiplier(self._budget)
        self._noise = ModelNoise(program, self._size, threads)

    def _keeping(self, where: Folder, settings: dict[str, Any] | None) -> bool:
        """Whether releases are kept: as asked, as begun, or as little as they take."""
        keeps = where.keep_releases
        if keeps is None:
            small = where.ahead == 1 and 4 * self._size * self._every <= _MOST_KEPT
            keeps = self._carry is not None and small if settings is None else bool(settings.get("kept releases"))
        if keeps and (self._carry is None or where.ahead > 1):
            raise ValueError("carry must be given, and ahead must be 1, in a run that keeps its releases")
        return keeps

    def _settings(self, promised: Participation, asked: Mechanism | None) -> dict[str, Any]:
        """What the command says of the run; without a mechanism, all else."""
        order = self._batches
        found: dict[str, Any] = {
            "format": _FORMAT,
            **{name: plain(value) for name, value in self._budget.arguments().items()},
            "participation": repr(promised),
            "size": self._size,
            "batches": None if order is None else repr(order.participation),
            "examples": None if order is None else order.examples,
            "batch size": None if order is None else order.batch_size,
            "order": None if order is None else order.identity,
            "kept releases": self._keeps,
            "tolerance": TOLERANCE,
            "generator": draws.fingerprint(),
        }
        return found if asked is None else found | {"mechanism": f"{asked!r:.60} {digest(plain(asked))[:16]}"}

    def _found(self) -> dict[str, Any]:
        """What was computed from these settings."""
        made = self._program
        return {
            "arithmetic": made.dtype,
            "noise": digest(plain(made.mechanism))[:32],
            "multiplier": self._multiplier,
        }

    def _order_file(self) -> dict[str, bytes]:
        if self._batches is None:
            return {}
        file = BytesIO()
        np.save(file, self._batches.orders, allow_pickle=False)
        return {"order.npy": file.getvalue()}

    def _take_order(self, home: Home) -> None:
        """Take the order with which the run began, where the command does not state one."""
        own, settings = self._batches, home.settings
        if own is None or settings is None or settings.get("batches") != repr(own.participation):
            return
        if own.drawn and (settings.get("examples"), settings.get("batch size")) == (own.examples, own.batch_size):
            orders = np.load(BytesIO(home.file("order.npy")), allow_pickle=False)
            self._batches = Batches(own.participation, orders, own.batch_size, drawn=True)

    def _kept(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint holds."""
        carried = {} if self._carry is None else self._carry.save()
        return {"memory": self._noise.memory} | {f"carry {name}": value for name, value in carried.items()}

    def _go_on(self, home: Home) -> None:
        """Take up the last checkpoint, and go over the steps that were begun since."""
        position, arrays = home.read_checkpoint()
        free = home.journal.free
        if position > free:
            raise ValueError(f"{home.path} is damaged: its checkpoint is after step {position}, its journal at {free}")
        if arrays:
            self._noise.memory = arrays.pop("memory")
            if self._carry is not None:
                self._carry.load({name.removeprefix("carry "): value for name, value in arrays.items()})
        self._position = self._saved = position
        self._nonces = home.journal.nonces(position)
        if home.journal.finished:
            self._position = free
            self._finish()
            return
        if self._keeps:
            missing = [step for step in range(position, free) if home.release(step, self._nonces[step]) is None]
            if missing not in ([], [free - 1]):
                raise ValueError(f"{home.path} is damaged: the release of step {missing[0]} is missing")
            free -= len(missing)
        else:
            self._skipped = free - position
            while self._position < free:
                if free != self._steps:
                    self._made(self._position, self._nonces[self._position])
                del self._nonces[self._position]
                self._position += 1
        self._begun = self._noted = free

    def _finish(self) -> None:
        """Release the folder of a run that is over."""
        assert self._home is not None
        self._finished = True
        self._home.close()

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
        """Number of steps that were skipped at the opening, because a crash had begun them."""
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
        with nullcontext() if self._home is None else self._termination:
            with self._alone():
                self._handed = False  # a batch that an earlier loop left is handed out again
            while not self._over():
                batch = self.next_batch()
                step = self.position
                yield batch
                if self.position != step + 1:
                    raise RuntimeError(f"step {step} has got no noise, or another loop uses this run")

    def _over(self) -> bool:
        """Whether all steps were made; what is due between two steps is done."""
        with self._alone():
            if not self._finished:
                self._check_open()
                self._between_steps()
            return self.position == self.steps

    def next_batch(self) -> Any:
        """The batch of the next step, whose noise is then to be made; the number of the step without batches.

        Raises
        ------
        RuntimeError
            All steps were made, or the batch that was handed out last has got no noise.
        """
        with self._alone():
            step = self.position
            if self._handed:
                raise RuntimeError(f"the batch of step {step} has got no noise: noise is added once to each batch")
            if self._over():
                raise RuntimeError(
                    f"the run has made its {self.steps} steps: a further one is not covered by its noise"
                )
            self._handed = True
            if self._batches is None:
                return step
            batch = self._batches.batch(step)
            self._examples = batch.size
            return batch

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the run is closed: the same command goes on with a run that has a folder")

    def _between_steps(self) -> None:
        """Write the checkpoint that is due; end the run after its last step, or where the process is to end."""
        if self._home is None:
            return
        last = self.position == self.steps
        if last or self.position >= self._saved + self._every:
            self._save(self._home)
        if last:
            with self._making():
                self._home.journal.finish()
            self._finish()
        if self._termination.sent:
            self.close()
            raise SystemExit(_TERMINATED)

    def _save(self, home: Home) -> None:
        if self.position > self._saved:
            home.write_checkpoint(self.position, self._kept())
            self._saved = self.position

    def add_noise(self, total: Any, *, examples: int | None = None) -> NDArray[Any]:
        """The sum of the clipped gradients of a step plus its noise.

        Parameters
        ----------
        total
            The sum over the batch that was handed out last, shape (size,), of float32 or float64.
        examples
            The number of examples in it, where the run has no batches: then its norm is checked, too.

        Raises
        ------
        ValueError
            The sum is not finite, longer than that of so many clipped gradients, or of a type whose rounding errors
            are more than 2⁻¹⁰ standard deviations of the noise.  The step can be made with another sum.
        RuntimeError
            No batch was handed out for this step, the run is closed or over, or another process uses it.
        """
        with self._alone():
            self._check_open()
            if self._follows:
                raise RuntimeError("the noise is that of the process that this run follows")
            if not self._handed:
                raise RuntimeError(f"no batch was handed out for step {self.position}: noise is added once to each")
            values = self._checked(total, examples)
            with self._making():
                noisy = self._noisy(self.position, values)
                self._position += 1
                self._handed = False
            return noisy

    def _checked(self, total: Any, examples: int | None) -> NDArray[Any]:
        """The sum, if the noise of the run covers it."""
        values = np.asarray(total)
        if values.shape != (self._size,) or values.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"total must be a vector of {self._size} numbers of float32 or float64, got shape {values.shape} of "
                f"{values.dtype}"
            )
        if self._batches is not None:
            if examples not in (None, self._examples):
                raise ValueError(f"examples must be the {self._examples} of the batch, got {examples}")
            examples = self._examples
        squares = float(np.dot(values, values))  # in float32 fast, and good enough far below the limit
        count = None if examples is None else checks.integer("examples", examples, 0)
        if count is None and np.isfinite(squares):
            return values
        norm = float(np.linalg.norm(values.astype(float)))
        if not np.isfinite(norm):
            raise ValueError("total must be finite")
        if count is None:
            return values
        largest = count * self._budget.clip_norm
        if norm > largest * (1 + _SLACK):
            raise ValueError(
                f"total must have a norm of at most {largest:.6g}, as the sum of {count} clipped gradients has, got "
                f"{norm:.6g}"
            )
        error = largest * UNITS[values.dtype.name] / step_scale(self._program, self.scale, self.position)
        if error > _COARSEST:
            raise ValueError(
                f"total must be of a type that is precise beside the noise, got {values.dtype}, whose rounding errors "
                f"are up to {error:.2g} standard deviations: sum in float64"
            )
        return values

    def _made(self, step: int, nonce: bytes) -> NDArray[np.float32]:
        return self._noise.made(self._secret, step, nonce, self.scale)

    def _noisy(self, step: int, values: NDArray[Any]) -> NDArray[Any]:
        """The noisy sum of a step: the kept one of a step that was released before, or a new one."""
        home = self._home
        if home is None:
            return values + self._made(step, b"")
        if step < self._begun:
            nonce = self._nonces.pop(step)
            self._made(step, nonce)  # the memory goes on
            kept = home.release(step, nonce)
            assert kept is not None
            return kept
        if step >= self._noted:
            end = step + self._ahead if self.steps is None else min(step + self._ahead, self.steps)
            nonce = home.journal.begin(step, end)
            self._nonces.update(dict.fromkeys(range(step, end), nonce))
            self._noted = end
        self._begun = step + 1
        nonce = self._nonces.pop(step)
        noisy = values + self._made(step, nonce)
        if self._keeps:
            home.keep_release(step, nonce, noisy)
        return noisy

    # -- distributed runs ----------------------------------------------------------------------------------------------

    def follow(self, position: int) -> None:
        """Leave the noise to another process of a distributed run, and take its position.

        Parameters
        ----------
        position
            That of the process that makes the noise, which alone has the folder.
        """
        if self._home is not None:
            raise ValueError("folder must be None in a process that follows another")
        self._position = checks.integer("position", position, 0, largest=self.steps or _ENDLESS)
        self._handed = False
        self._follows = True

    def pass_step(self) -> None:
        """Note that another process has added the noise of the batch that was handed out last."""
        with self._alone():
            if not self._follows or not self._handed:
                raise RuntimeError("only a step of a run that follows another process can pass without noise")
            self._position += 1
            self._handed = False

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End cleanly between two steps: a checkpoint is written, and steps noted ahead are free again.

        What ``carry.save`` returns must be the state after the last step.  The object cannot be used again.
        """
        self._end(saves=True)

    def _end(self, *, saves: bool) -> None:
        if os.getpid() != self._process:
            return  # the files are those of the other process
        with self._lock:
            home = None if self._closed or self._finished else self._home
            self._closed = True
            self._noise.close()
            if home is None:
                return
            try:
                if self._broken:
                    return
                if saves:
                    self._save(home)
                if self._begun < self._noted:
                    home.journal.clean(self._begun)
                if saves and self.position == self.steps:
                    home.journal.finish()
            finally:
                home.close()

    def __enter__(self) -> PrivateRun:
        if self._home is not None:
            self._termination.__enter__()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if self._home is not None:
            self._termination.__exit__()
        self._end(saves=kind is None)

    def __repr__(self) -> str:
        return (
            f"PrivateRun({self._budget!r}, {self.participation!r}, {self._program.mechanism!r:.60}, size={self._size}, "
            f"position={self.position} of {self.steps}, multiplier={self._multiplier!r})"
        )


def _interval(who: Participation) -> int:
    """Steps between two checkpoints: an epoch, or a tenth of a run without epochs."""
    if who.period > 1:
        return who.period
    return 1000 if who.steps is None else -(-who.steps // 10)


def _is_asked(mechanism: Mechanism) -> bool:
    """Whether a mechanism runs as it is, and not by noise that is found in its place."""
    return bool(getattr(mechanism, "noise", mechanism).forms())
