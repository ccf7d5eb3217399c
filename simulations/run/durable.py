"""A run and its folder: the run agrees on the settings, finds where to go on, and notes steps and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import AnyBatches, Batches
from corrnoise.simulations.run.engines import TOLERANCE, streaming
from corrnoise.simulations.run.folder import Arrays, Folder, Home, check_agreement
from corrnoise.simulations.run.noise import ModelNoise
from corrnoise.support.serialise import digest, packed, plain, unpacked
from corrnoise.support.version import __version__
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_FORMAT = "corrnoise run 1"
_MOST_KEPT = 256e6  # bytes of kept releases between two checkpoints


class Carry(Protocol):
    """The content of a checkpoint besides the memory of the noise: the model, the state of its optimizer, and so on."""

    def save(self) -> Arrays:
        """Arrays by their names, as they are between two steps."""

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Go on from what ``save`` returned."""


class Durable:
    """A run in its folder, locked for this process; the arguments are those of ``PrivateRun``.

    Noisy sums are kept until the next checkpoint where it ``keeps``, and ``skipped`` counts the steps that were begun
    before a crash and are not shown.
    """

    def __init__(
        self,
        folder: Folder,
        carry: Carry | None,
        budget: Budget,
        participation: Participation,
        size: int,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._carry = carry
        self._participation = participation
        self._ahead = folder.ahead
        self._every = folder.checkpoint_every or _interval(participation)
        self.skipped = self._saved = self._begun = self._noted = 0
        self._nonces: dict[int, bytes] = {}
        self.home = Home(folder)
        try:
            self.keeps = self._keeping(folder, size)
        except BaseException:
            self.home.close()
            raise
        self._settings: dict[str, Any] = {
            **({} if settings is None else settings),
            "format": _FORMAT,
            "version": __version__,
            **{name: plain(value) for name, value in budget.arguments().items()},
            "participation": repr(participation),
            "size": size,
            "kept releases": self.keeps,
            "tolerance": TOLERANCE,
            "generator": draws.fingerprint(),
        }
        self._files: dict[str, bytes] = {}

    def _keeping(self, folder: Folder, size: int) -> bool:
        """Whether releases are kept: as asked, as begun, or if they are small."""
        keeps = folder.keep_releases
        if keeps is None and self.home.settings is not None:
            keeps = bool(self.home.settings.get("kept releases"))
        elif keeps is None:
            keeps = self._carry is not None and folder.ahead == 1 and 4 * size * self._every <= _MOST_KEPT
        if keeps and (self._carry is None or folder.ahead > 1):
            raise ValueError("carry must be given, and ahead must be 1, in a run that keeps its releases")
        return keeps

    # -- opening -------------------------------------------------------------------------------------------------------

    def batches(self, given: AnyBatches | None) -> AnyBatches | None:
        """The batches with which the run began, where their order was drawn for it; otherwise those of the command.

        Sampled batches have no order here: the key of the folder draws them, again the same after a restart.
        """
        found = given
        stored = self.home.settings
        if (
            isinstance(given, Batches)
            and given.drawn
            and stored is not None
            and stored.items() >= _sizes(given).items()
        ):
            found = Batches(given.participation, self.home.order(), given.batch_size, drawn=True)
        self._settings |= _sizes(found) | {"order": None if found is None else found.identity}
        self._order = found.orders if isinstance(found, Batches) else None
        return found

    def program(self, mechanism: Mechanism | None, dtype: Dtype | None) -> Program:
        """The program with which the run began, or that of a new one."""
        found = mechanism
        asked_runs = mechanism is not None and bool(
            getattr(mechanism, "noise", mechanism).forms()
        )  # and not noise that is found in its place
        named = None if mechanism is None else f"{mechanism!r:.60} {digest(plain(mechanism))[:16]}"
        self._settings["mechanism"] = named
        if (stored := self.home.settings) is not None:
            check_agreement(stored, self._settings)
            if not asked_runs:
                found = unpacked(self.home.file("noise.npz"), KINDS, name=str(self.home.path / "noise.npz"))
            dtype = stored.get("arithmetic") if dtype is None else dtype
        made = streaming(found, self._participation, dtype)
        if not asked_runs:
            self._files["noise.npz"] = packed(made.mechanism, KINDS)
        self._program = made
        self._settings |= {"arithmetic": made.dtype, "noise": digest(plain(made.mechanism))[:32]}
        return made

    def multiplier(self, budget: Budget) -> float:
        """The multiplier of the program; of sampled batches the one with which the run began, if it is verified again.

        Parameters
        ----------
        budget
            That of the run, which agrees with the folder.
        """
        stored = None if self.home.settings is None else self.home.settings.get("multiplier")
        covered = budget.epsilon is not None and budget.adjacency == "zero-out"
        if self._participation.sampled and isinstance(stored, float) and covered:
            from corrnoise.theory.amplification.curve import delta_of

            # To find it again takes several times as long; its last factor 1 + 2⁻⁵⁰ is not counted (``Program``).
            assert budget.epsilon is not None
            found = delta_of(self._program.curve, budget.epsilon, stored / (1 + 2.0**-50))
            if budget.delta is not None and found.upper <= budget.delta:
                return stored
        return self._program.multiplier(budget)

    def start(self, noise: ModelNoise, multiplier: float, scale: float, steps: int | None) -> int:
        """Begin the run, or go on with it, and with the noise to its place; the first step that is to be handed out."""
        self._noise = noise
        self._steps = steps
        self._settings["multiplier"] = multiplier
        if self.home.settings is None:
            self.home.begin(self._settings, self._files, self._order, self._kept())
            return 0
        check_agreement(self.home.settings, self._settings)
        self.home.go_on()
        journal = self.home.journal
        position, arrays = self.home.read_checkpoint()
        free = journal.free
        if arrays:
            memory = arrays.pop("memory")
            fresh = noise.memory
            if (memory.shape, memory.dtype) != (fresh.shape, fresh.dtype):
                raise ValueError(f"{self.home.path} is damaged: its checkpoint has {memory.dtype}{memory.shape}")
            noise.memory = memory
            if self._carry is not None:
                self._carry.load({name.removeprefix("carry "): value for name, value in arrays.items()})
        self._saved = position
        self.home.tidy(position)
        if journal.finished:
            self.home.close()
            return free
        self._nonces = journal.nonces(position)
        if self.keeps:
            missing = [step for step in range(position, free) if self.home.release(step, self._nonces[step]) is None]
            if missing not in ([], [free - 1]):
                raise ValueError(f"{self.home.path} is damaged: the release of step {missing[0]} is missing")
            self._begun = self._noted = free - len(missing)
            return position
        self.skipped = free - position
        self._begun = self._noted = free
        for step in range(position, free):
            nonce = self._nonces.pop(step)
            if free != steps:
                noise.made(self.home.secret, step, nonce, scale)
        return free

    # -- steps ---------------------------------------------------------------------------------------------------------

    def nonce(self, step: int) -> bytes:
        """The nonce of a step, which is noted if it was not begun before."""
        if step >= self._noted:
            end = step + self._ahead if self._steps is None else min(step + self._ahead, self._steps)
            nonce = self.home.journal.begin(step, end)
            self._nonces.update(dict.fromkeys(range(step, end), nonce))
            self._noted = end
        return self._nonces.pop(step)

    def released(self, step: int, nonce: bytes, noisy: NDArray[Any]) -> NDArray[Any]:
        """The release of a step: ``noisy``, which is kept before if releases are; or the release of before."""
        if step < self._begun:
            kept = self.home.release(step, nonce)
            if kept is None:
                raise ValueError(f"{self.home.path} is damaged: the release of step {step} is missing")
            return kept
        self._begun = step + 1
        if self.keeps:
            self.home.keep_release(step, nonce, noisy)
        return noisy

    def save(self, position: int, *, due: bool = True) -> None:
        """Write a checkpoint after ``position`` steps unless there is one; where it is not ``due``, at its time."""
        if position > self._saved and (due or position >= self._saved + self._every):
            self.home.write_checkpoint(position, self._kept())
            self._saved = position

    def _kept(self) -> dict[str, NDArray[Any]]:
        """The content of a checkpoint."""
        carried = {} if self._carry is None else self._carry.save()
        return {"memory": self._noise.memory} | {f"carry {name}": value for name, value in carried.items()}

    def finish(self) -> None:
        """Note that the run is over, and give the folder back."""
        self.home.journal.finish()
        self.home.close()

    def clean(self) -> None:
        """Note that the steps that were noted ahead were not begun."""
        if self._begun < self._noted:
            self.home.journal.clean(self._begun)


def _sizes(given: AnyBatches | None) -> dict[str, Any]:
    """The facts that two drawn orders must share to stand for each other."""
    if given is None:
        return {"batches": None, "examples": None, "batch size": None}
    return {"batches": repr(given.participation), "examples": given.examples, "batch size": given.batch_size}


def _interval(who: Participation) -> int:
    """Steps between two checkpoints: an epoch, or a tenth of a run without epochs."""
    if who.period > 1:
        return who.period
    return 1000 if who.steps is None else -(-who.steps // 10)
