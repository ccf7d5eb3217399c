"""A run and its folder: the run agrees on the settings, finds where to go on, and notes steps and checkpoints.

A run of several processes (``ranks``) has one folder, which all processes see.  The first process holds it, and each
writes its shard of a checkpoint.  As these are read by coordinates, the number of processes may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from corrnoise.simulations.run.batches import AnyBatches, Batches
from corrnoise.simulations.run.engines import Choice, found_mechanism, streaming
from corrnoise.simulations.run.folder import (
    FORMAT,
    PROGRAM_FILE,
    PROGRAM_KINDS,
    Folder,
    Home,
    check_agreement,
    json_bytes,
)
from corrnoise.simulations.run.model_noise import ModelNoise, NoiseMaker, fingerprint
from corrnoise.simulations.run.ranks import Alone, Ranks
from corrnoise.simulations.run.refusals import refused
from corrnoise.simulations.run.sealed import Arrays, Sealed
from corrnoise.simulations.run.secret import Secret
from corrnoise.simulations.run.spans import gathered
from corrnoise.support.reading import LARGE, guarded, json_value
from corrnoise.support.serialise import digest, packed, plain
from corrnoise.support.version import __version__
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Program, SamplingAccountant
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.participation import Participation
from corrnoise.theory.participation.legacy import stable_text
from corrnoise.theory.privacy import Budget

_MAX_KEPT_BYTES = 256e6  # bytes of kept releases between two checkpoints
_MAX_INTERVAL_STEPS = 10_000  # between two checkpoints, where the caller does not say
_MULTIPLIER_SLACK = 1e-9  # relative excess of a multiplier that is computed again over the one in the folder


class Carry(Protocol):
    """The content of a checkpoint besides the memory of the noise: the model, the state of its optimizer, and so on."""

    def save(self) -> Arrays:
        """Arrays by their names, as they are between two steps."""

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Go on from what ``save`` returned."""


class _Found(NamedTuple):
    """The content of the folder of a run: the last checkpoint, and the steps that were started."""

    head: dict[str, Any]
    free: int
    finished: bool
    nonces: dict[int, bytes]


class Durable:
    """A run in its folder, locked for this process; the arguments are those of ``PrivateRun``.

    Noisy sums are kept until the next checkpoint where it ``keeps``, and ``skipped`` counts the steps that were
    started before a crash and are not shown.
    """

    def __init__(
        self,
        folder: Folder,
        carry: Carry | None,
        budget: Budget,
        participation: Participation,
        size: int,
        settings: Mapping[str, Any] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self._carry = carry
        self._budget = budget
        self._participation = participation
        self._size = size
        self._ranks: Ranks = Alone() if ranks is None else ranks
        self._ahead = folder.ahead
        self._every = folder.checkpoint_every or _interval(participation)
        self.skipped = self._saved = self._begun = self._noted = 0
        self._nonces: dict[int, bytes] = {}
        self.home = Sealed(Path(folder.path), Secret(b""))

        def held() -> bool:
            self.home = Home(folder)
            try:
                return self._keeping(folder, size)
            except BaseException:
                self.home.close()
                raise

        self.keeps = self._ranks.share(held)
        self._settings: dict[str, Any] = {
            **({} if settings is None else json_value(json_bytes("settings", settings))),  # as they are read again
            "format": FORMAT,
            "version": __version__,
            **{name: plain(value) for name, value in budget.arguments().items()},
            "participation": stable_text(participation),
            "size": size,
            "kept releases": self.keeps,
        }
        self._files: dict[str, bytes] = {}

    @property
    def _own(self) -> Home:
        """The folder in the first process, which alone holds it."""
        assert isinstance(self.home, Home)
        return self.home

    @property
    def is_new(self) -> bool:
        """Whether the folder has no run yet."""
        return self._own.settings is None

    @property
    def begun(self) -> int:
        """Number of steps whose noisy sum was returned or skipped, also before a restart."""
        return self._begun

    def _keeping(self, folder: Folder, size: int) -> bool:
        """Whether releases are kept: as asked, as at the start, or if they are small."""
        keeps = folder.keep_releases
        covers = self._carry is not None and folder.ahead == 1 and self._ranks.count == 1
        if keeps is None and self._own.settings is not None:
            keeps = bool(self._own.settings.get("kept releases"))
        elif keeps is None:
            keeps = covers and 4 * size * self._every <= _MAX_KEPT_BYTES
        if keeps and not covers:
            raise ValueError(
                "carry must be given, ahead be 1, and the process be one, in a run that keeps its releases"
            )
        return keeps

    # -- opening -------------------------------------------------------------------------------------------------------

    def batches(self, given: AnyBatches | None) -> AnyBatches | None:
        """The batches of the start, where their order was drawn for the run; otherwise the given ones.

        Sampled batches have no order here: the key of the folder draws them, again the same after a restart.
        """
        found = self._ranks.share(lambda: self._ordered(given))
        self._settings |= _sizes(found) | {"order": None if found is None else found.identity}
        self._order = found.orders if isinstance(found, Batches) else None
        return found

    def _ordered(self, given: AnyBatches | None) -> AnyBatches | None:
        stored = self._own.settings
        if (
            isinstance(given, Batches)
            and given.drawn
            and stored is not None
            and stored.items() >= _sizes(given).items()
        ):
            return Batches(given.participation, self._own.order(), given.batch_size, drawn=True)
        return given

    def program(self, mechanism: Mechanism | Choice, asked: str | None, dtype: Dtype | None) -> Program:
        """The program of the start of the run; in a new run the program of the mechanism.

        The folder keeps a mechanism that takes a search: noise in place of noise with a long memory, the result of a
        function, and the noise of a design whose search was ``asked`` the same.  Any other must have the same numbers.
        """
        given = mechanism if isinstance(mechanism, Mechanism) else None
        runs = given is not None and bool(getattr(given, "noise", given).forms())
        compared = runs and asked is None
        if asked is not None:
            named = f"the one of the search {asked:.32}"
        elif given is None:
            named = None
        else:
            named = f"{given!r:.60} {digest(given)[:16]}"
        self._settings["mechanism"] = named
        made = self._ranks.share(lambda: self._made(mechanism, dtype, runs=runs, compared=compared))
        self._program = made
        self._settings |= {"arithmetic": made.dtype, "noise": digest(made.mechanism)[:32]}
        return made

    def _made(self, mechanism: Mechanism | Choice, dtype: Dtype | None, *, runs: bool, compared: bool) -> Program:
        """The program; a mechanism that ``runs`` here is kept as it was given, and its numbers may be ``compared``."""
        stored = self._own.settings
        if stored is None:
            chosen = found_mechanism(mechanism, self._participation, self._budget)
        else:
            check_agreement(stored, self._settings)
            dtype = stored.get("arithmetic") if dtype is None else dtype
            if compared:
                assert isinstance(mechanism, Mechanism)
                chosen = mechanism
            else:
                chosen, _ = self._own.program()
        made = streaming(chosen, self._participation, dtype)
        if stored is None:
            kinds: list[type] = list(PROGRAM_KINDS.values())
            known = type(self._participation) in kinds
            thing = {
                "mechanism": chosen if runs else made.mechanism,
                "participation": self._participation if known else None,
            }
            with suppress(*[TypeError] * compared):  # of another package, which a restart gives again
                self._files[PROGRAM_FILE] = packed(thing, PROGRAM_KINDS, most_bytes=LARGE)
        return made

    def multiplier(self, budget: Budget, *, accountant: SamplingAccountant | None = None) -> float:
        """The multiplier of the start of the run, if it covers the program; in a new run the one of the program."""
        return self._ranks.share(lambda: self._verified(budget, accountant))

    def _verified(self, budget: Budget, accountant: SamplingAccountant | None) -> float:
        program = self._program
        if self._own.settings is None:
            if accountant is None:
                return program.multiplier(budget)
            evidence = accountant.certificate(program, program.ideal_budget(budget))
            self._settings["certificate"] = evidence.arguments()
            return program.multiplier(budget, accountant=evidence)
        stored = self._own.settings.get("multiplier")
        if not isinstance(stored, float):
            raise ValueError(f"{self.home.path} is damaged or foreign: its multiplier is {stored!r:.80}")
        known = None
        if accountant is not None:
            with guarded(self.home.path / "settings.json"):
                described = self._own.settings["certificate"]
                known = accountant.verified(program, program.ideal_budget(budget), described)
        elif self._participation.sampled and budget.epsilon is not None and budget.adjacency == "zero-out":
            from corrnoise.theory.amplification.curve import delta_of

            # To find it again takes several times as long; its last factor 1 + 2⁻⁵⁰ is not counted (``Program``).
            found = delta_of(self._program.curve, budget.epsilon, stored / (1 + 2.0**-50))
            delta = self._program.ideal_budget(budget).delta
            if delta is not None and found.upper <= delta:
                return stored
        needed = program.multiplier(budget, accountant=known)
        if not needed <= stored * (1 + _MULTIPLIER_SLACK):
            raise refused(
                "multiplier is small",
                f"the multiplier of the run in {self.home.path} must be at least {needed!r}, got {stored!r}: its noise "
                "is too small by what this version knows",
            )
        return stored

    def start(
        self,
        noise: NoiseMaker,
        multiplier: float,
        make: Callable[[Secret, int, bytes], Any],
        steps: int | None,
        *,
        wide: bool,
    ) -> int:
        """Start or resume the run, with the noise at its place; the first step that is to be handed out.

        ``make`` makes the noise of a step, of the key, the step and its nonce; it is ``wide`` where it is float64.
        """
        self._noise = noise
        self._steps = steps
        self._settings["multiplier"] = multiplier
        maker: Any = ModelNoise
        if self._program.dtype == "exact":
            from corrnoise.simulations.run.exact_steps import finest_unit
            from corrnoise.simulations.run.proved import ProvedNoise

            maker = partial(ProvedNoise, scale=1.0, unit=finest_unit(self._program))
        self._settings["fingerprint"] = fingerprint(self._program, self._size, wide=wide, maker=maker)
        check_agreement(self._ranks.share(lambda: self._settings), self._settings)
        new = self._ranks.share(lambda: self._own.settings is None)
        self._before = max(noise.history or 0, noise.lookback)
        if new:
            carried = self._carried()
            self._ranks.share(lambda: self._own.begin(self._settings, self._files, self._order, carried))
        arrays: dict[str, NDArray[Any]] = {}
        head, free, finished, self._nonces = self._ranks.share(lambda: self._found(arrays))
        secret = Secret(self._ranks.share(lambda: self._own.secret.reveal()))
        position = self._saved = head["position"]
        if self._ranks.rank:
            self.home = Sealed(self.home.path, secret)
            arrays = self.home.read(self.home.path / f"checkpoint-{position}")[1]
        if not new or self._ranks.rank:  # the others start from the first one's carried arrays
            self._load(head, arrays)
        self._begun = self._noted = free
        if finished:
            self.skipped = free - position  # none, unless the last checkpoint cannot be read
            self.home.close()
            return free
        if self.keeps:
            missing = [step for step in range(position, free) if not self._own.journal.has_release(step)]
            if missing:
                raise ValueError(f"{self.home.path} is damaged: the release of step {missing[0]} is missing")
        noise.know({step: nonce for step, nonce in self._nonces.items() if step < position})
        start = position if self.keeps else free
        self.skipped = start - position
        if start != steps:
            for step in range(self._oldest(position), start):
                make(secret, step, self._nonces[step])
        return start

    def _found(self, arrays: dict[str, NDArray[Any]]) -> _Found:
        """Open the journal, and put the arrays of the last checkpoint into ``arrays``."""
        home = self._own
        if home.settings is not None:
            check_agreement(home.settings, self._settings)
        head, found = home.go_on()
        arrays.update(found)
        journal = home.journal
        nonces = journal.nonces(max(head["position"] - self._before, 0))
        return _Found(head, journal.free, journal.finished, nonces)

    def _oldest(self, position: int) -> int:
        """First step to redraw to rebuild the state at ``position``."""
        history = self._noise.history
        return position if history is None else max(position - history, 0)

    def _load(self, head: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint."""
        position, noise = head["position"], self._noise
        if position > 0 and noise.history is None:
            with guarded(self.home.path / f"checkpoint-{position}"):
                shards = ((each["spans"], each["memory"]) for each in chain([arrays], self.home.shards(head)))
                memory = gathered(shards, noise.spans, self._size)
                if (len(memory), memory.dtype) != (noise.rows, noise.dtype):
                    raise ValueError(f"it has a memory of {memory.dtype}{memory.shape}")
            noise.memory = memory
        if self._carry is not None and arrays:
            carried = {name: each for name, each in arrays.items() if name.startswith("carry ")}
            self._carry.load({name.removeprefix("carry "): each for name, each in carried.items()})

    # -- steps ---------------------------------------------------------------------------------------------------------

    def nonce(self, step: int) -> bytes:
        """The nonce of a step, which is noted if it was not started before, or later together with its kept release."""
        first, nonce = self._ranks.share(lambda: (step, self._noted_nonce(step)))
        if first != step:
            raise RuntimeError(f"all processes must make the same step, got {step} here and {first} in the first")
        return nonce

    def noted(self, step: int) -> bytes | None:
        """The nonce of a step that was noted ahead."""
        return self._nonces.get(step)

    def _noted_nonce(self, step: int) -> bytes:
        if step >= self._noted:
            nonce = self._own.journal.nonce(step)
            if self.keeps:
                return nonce
            end = step + self._ahead if self._steps is None else min(step + self._ahead, self._steps)
            self._own.journal.begin(step, end, nonce)
            self._nonces.update(dict.fromkeys(range(step, end), nonce))
            self._noted = end
        return self._nonces.pop(step)

    def released(self, step: int, nonce: bytes, noisy: NDArray[Any]) -> NDArray[Any]:
        """The release of a step: ``noisy``, which is kept before if releases are; or the release of before."""
        if step < self._begun:
            return self._own.journal.release(step)
        if self.keeps:
            self._own.journal.begin(step, step + 1, nonce, noisy)
            self._noted = step + 1
        self._begun = step + 1
        return noisy

    def save(self, position: int, *, due: bool = True) -> None:
        """Write a checkpoint after ``position`` steps unless there is one; where it is not ``due``, at its time."""
        if position <= self._saved or not (due or position >= self._saved + self._every):
            return
        noise, ranks = self._noise, self._ranks
        head = ranks.share(lambda: self._own.head(position, 1 if noise.history is not None else ranks.count))
        kept = {} if noise.history is not None else {"memory": noise.memory, "spans": noise.spans}
        carried = self._carried()
        if ranks.rank and kept:
            self.home.write_shard(head, ranks.rank, kept)
        ranks.wait()
        if not ranks.rank:
            self._own.write_checkpoint(head, kept | carried, max(position - self._before, 0))
        self._saved = position

    def _carried(self) -> dict[str, NDArray[Any]]:
        """The content of a checkpoint besides the noise."""
        return {} if self._carry is None else {f"carry {name}": each for name, each in self._carry.save().items()}

    def finish(self) -> None:
        """Note that the run is over, and give the folder back."""
        if not self._ranks.rank:
            self._own.journal.finish()
        self.home.close()

    def clean(self) -> None:
        """Note that the steps that were noted ahead were not started."""
        if self._begun < self._noted:
            self._own.journal.clean(self._begun)


def _sizes(given: AnyBatches | None) -> dict[str, Any]:
    """The facts that two drawn orders must share to stand for each other."""
    if given is None:
        return {"batches": None, "examples": None, "batch size": None}
    return {"batches": stable_text(given.participation), "examples": given.examples, "batch size": given.batch_size}


def _interval(who: Participation) -> int:
    """Steps between two checkpoints: an epoch, or a tenth of a run without epochs; so few that it opens quickly."""
    if who.worst.period > 1:
        return min(who.worst.period, _MAX_INTERVAL_STEPS)
    return 1000 if who.steps is None else min(-(-who.steps // 10), _MAX_INTERVAL_STEPS)
