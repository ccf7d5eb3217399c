"""A model of runs that share a folder: all interleavings of single writes, with crashes and tampering.

Two actors open the folder, note steps, release them, and write checkpoints, each with a new segment of the journal.  A
state holds the files and their durable parts, the knowledge of each actor, and the steps that were shown.  ``search``
visits all states breadth first, and returns the faults that it sees:

``twice``
    A step was released twice, although only the journal or only the mark was tampered with.
``same noise``
    A step was released twice with the same nonce.
``refused``
    An opening was refused without tampering.

A mutant is a way to get the order of writes or the checks wrong; each has a fault of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

Record = tuple[str, int, int, int]  # kind, first, end, nonce
Journal = tuple[Record, ...]  # all records since the start, as each link commits to those before
Mark = tuple[Journal | None, Journal | None]  # as written, and as durable

_QUIET = {"steps": 1, "crashes": 0, "starts": 2}
_CRASH = {"steps": 1, "crashes": 1, "starts": 2}
_RESTORED = {**_QUIET, "tamperings": 1, "kinds": ("restore",)}
_CHECKPOINT = {"steps": 2, "every": 1, "crashes": 1, "starts": 2}
MUTANTS: dict[str, tuple[str, dict[str, Any]]] = {  # the fault of each mutant, and the options that show it
    "no lock": ("twice", _QUIET),
    "no outside lock": ("twice", {**_QUIET, "tamperings": 1, "kinds": ("unlock",)}),
    "released before it is noted": ("twice", _CRASH),
    "released before the mark": ("twice", {**_RESTORED, "crashes": 1}),
    "mark not read": ("twice", _RESTORED),
    "clean end frees what was begun": ("twice", {**_QUIET, "steps": 2, "ahead": 2}),
    "no fsync": ("refused", _CRASH),
    "no fsync at the opening": ("refused", {**_CRASH, "crashes": 2, "starts": 3}),
    "mark before journal": ("refused", _CRASH),
    "mark not brought to the journal": ("refused", {"steps": 2, "crashes": 2, "starts": 3}),
    "mark never synchronised": ("refused", {**_CRASH, "steps": 2}),
    "mark in one block": ("refused", _CRASH),
    "mark not synchronised before a segment": ("refused", {**_CHECKPOINT, "window": 3}),
    "names not synchronised at the opening": ("refused", {**_CHECKPOINT, "crashes": 2, "starts": 3}),
    "torn tail kept": ("refused", {"steps": 2, "crashes": 1, "starts": 3}),
    "one segment kept": ("refused", {"steps": 1, "every": 1, "crashes": 0, "starts": 2, "spoils": 1}),
    "noise from the key alone": ("same noise", _RESTORED),
    "no fork guard": ("same noise", {"steps": 2, "ahead": 2, "crashes": 0, "starts": 1}),
}


class Segment(NamedTuple):
    """A file of the journal: all records up to its end, its own from ``start`` on, and how many are durable.

    ``torn`` is 1 where bytes follow that are no record, and 2 where a record follows these.
    """

    position: int
    start: int
    journal: Journal
    durable: int
    named: bool = True
    torn: int = 0


class Folder(NamedTuple):
    """A folder: its segments, its checkpoints with the records before, and who holds its lock."""

    segments: tuple[Segment, ...] = (Segment(0, 0, (("h", 0, 0, -1),), 1),)
    checkpoints: tuple[tuple[int, Journal], ...] = ((0, ()),)
    spoiled: bool = False  # the last checkpoint cannot be read
    holder: int | None = None


class Actor(NamedTuple):
    """A process: its next action, its folder, the journal as it knows it, and the first step not released.

    ``saved`` is the position of its last checkpoint; it ``forces`` a mark that is synchronised.
    """

    does: str
    folder: int
    journal: Journal = ()
    position: int = 0
    saved: int = 0
    forces: bool = True
    ends: bool = False


class State(NamedTuple):
    """All that there is."""

    folders: tuple[Folder, ...] = (Folder(),)
    outside: Mark = (Folder().segments[0].journal,) * 2
    holder: int | None = None  # of the outside lock
    actors: tuple[Actor | None, ...] = (None, None)
    shown: frozenset[tuple[int, int]] = frozenset()
    nonces: int = 0
    touched: frozenset[str] = frozenset()  # journal, mark
    snapshot: tuple[Folder, Journal | None] | None = None
    crashes: int = 0
    tamperings: int = 0
    starts: int = 0
    spoils: int = 0


def free(journal: Journal) -> int:
    """The first step that was never started."""
    return journal[-1][2]


def nonce_of(journal: Journal, step: int) -> int:
    """The nonce of the last record of a step."""
    return next(nonce for kind, first, end, nonce in reversed(journal) if kind == "b" and first <= step < end)


class Search:
    """A breadth-first search.

    Parameters
    ----------
    steps, ahead, every, window
        The length of the run, how many steps a record covers, the steps between two checkpoints, and the records
        between two synchronisations of the mark.
    crashes, tamperings, starts, spoils
        How many there may be; ``spoils`` of last checkpoints that cannot be read.
    kinds
        The kinds of tampering: ``restore``, ``cut``, ``unlock``, ``copy``.
    mutant
        The mistake, a name of ``MUTANTS``.
    """

    def __init__(
        self,
        *,
        steps: int = 2,
        ahead: int = 1,
        every: int = 9,
        window: int = 1,
        crashes: int = 2,
        tamperings: int = 0,
        starts: int = 3,
        spoils: int = 0,
        kinds: tuple[str, ...] = (),
        mutant: str = "",
    ) -> None:
        self.steps, self.ahead, self.every, self.window = steps, ahead, every, window
        self.kinds, self.mutant = kinds, mutant
        self.tampered = tamperings
        self.first = State(crashes=crashes, tamperings=tamperings, starts=starts, spoils=spoils)
        self.faults: set[str] = set()

    def run(self, until: str | None = None) -> int:
        """Visit all states, or those before a fault; their number."""
        seen = {self.first}
        queue = deque([self.first])
        while queue and until not in self.faults:
            for state in self.after(queue.popleft()):
                if state not in seen:
                    seen.add(state)
                    queue.append(state)
        return len(seen)

    def after(self, state: State) -> Iterator[State]:
        """The states that may follow."""
        for number, actor in enumerate(state.actors):
            if actor is None:
                if state.starts and (number == 0 or state.actors[0] is not None):
                    for folder in range(len(state.folders)):
                        yield self.put(state, number, Actor("lock", folder), starts=state.starts - 1)
                continue
            yield from getattr(self, "do_" + actor.does)(state, number, actor)
            if state.crashes:
                yield self.gone(state, number)._replace(crashes=state.crashes - 1)
        if state.crashes and any(state.actors):
            yield from self.power_failure(state)
        if state.tamperings:
            yield from self.tamper(state)
        if state.spoils and len(state.folders[0].checkpoints) > 1:
            yield state._replace(**self.at(state, 0, spoiled=True), spoils=state.spoils - 1)

    # -- one write of one process --------------------------------------------------------------------------------------

    def put(self, state: State, number: int, actor: Actor | None, **changes: Any) -> State:
        actors = tuple(actor if k == number else other for k, other in enumerate(state.actors))
        return state._replace(actors=actors, **changes)

    def gone(self, state: State, number: int) -> State:
        """The process has ended, in whatever way; its locks are free."""
        folders = tuple(each._replace(holder=None) if each.holder == number else each for each in state.folders)
        holder = None if state.holder == number else state.holder
        left = self.put(state, number, None, folders=folders, holder=holder)
        if number or left.actors[1] is None:
            return left
        folders = tuple(each._replace(holder=0) if each.holder == 1 else each for each in folders)
        holder = 0 if holder == 1 else holder  # actors have no names: one that is alone is the first
        return left._replace(actors=(left.actors[1], None), folders=folders, holder=holder)

    def at(self, state: State, place: int, **changes: Any) -> dict[str, Any]:
        folders = tuple(f._replace(**changes) if k == place else f for k, f in enumerate(state.folders))
        return {"folders": folders}

    def on_last(self, state: State, place: int, **changes: Any) -> dict[str, Any]:
        """The last segment of a folder changes."""
        *others, last = state.folders[place].segments
        return self.at(state, place, segments=(*others, last._replace(**changes)))

    def do_lock(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        if state.folders[actor.folder].holder is not None and self.mutant != "no lock":
            yield self.gone(state, number)
        else:
            taken = self.at(state, actor.folder, holder=number)
            yield self.put(state, number, actor._replace(does="lock_outside"), **taken)

    def do_lock_outside(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        if state.holder is not None and self.mutant not in ("no lock", "no outside lock"):
            yield self.gone(state, number)
        else:
            yield self.put(state, number, actor._replace(does="read"), holder=number)

    def do_read(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        folder = state.folders[actor.folder]
        last = folder.segments[-1]
        journal = last.journal
        position, known = folder.checkpoints[-2 if folder.spoiled else -1]
        needed = [k for k, each in enumerate(folder.segments) if each.position <= position]
        chain = folder.segments[needed[-1] :] if needed else ()
        follows = all(b.journal[: b.start] == a.journal for a, b in pairwise(chain))
        mark = journal if self.mutant == "mark not read" else state.outside[0]
        ahead_of_mark = mark is None or journal[: len(mark)] != mark
        behind = mark is not None and len(mark) < max(last.start, len(journal) - self.window)
        bad = last.torn == 2 or any(each.torn for each in folder.segments[:-1])
        if bad or not chain or not follows or journal[: len(known)] != known or ahead_of_mark or behind:
            if state.tamperings == self.tampered:
                self.faults.add("refused")
            yield self.gone(state, number)
            return
        now = actor._replace(does="cut", journal=journal, position=free(journal), saved=position)
        yield self.put(state, number, now)

    def do_cut(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        torn = state.folders[actor.folder].segments[-1].torn if self.mutant == "torn tail kept" else 0
        does = "mark" if self.mutant == "no fsync at the opening" else "sync"
        yield self.put(state, number, actor._replace(does=does), **self.on_last(state, actor.folder, torn=torn))

    def do_sync(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        last = state.folders[actor.folder].segments[-1]
        durable = last.durable if self.mutant == "no fsync" else len(last.journal)
        does = "mark"
        if self.mutant == "released before the mark" and not actor.forces:
            state, does = self.shown(state, number, actor), "mark"
            actor = actor._replace(position=actor.position + 1)
        if actor.forces and self.mutant != "names not synchronised at the opening":
            does = "name"
        yield self.put(state, number, actor._replace(does=does), **self.on_last(state, actor.folder, durable=durable))

    def do_name(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        segments = tuple(each._replace(named=True) for each in state.folders[actor.folder].segments)
        does = "mark"
        if self.mutant == "mark not brought to the journal" and actor.journal[-1][0] == "b":
            does = "ready"
        named = self.at(state, actor.folder, segments=segments)
        yield self.put(state, number, actor._replace(does=does), **named)

    def do_mark(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        durable = state.outside[1]
        synchronises = actor.forces or len(actor.journal) - len(durable or ()) >= self.window
        now = actor._replace(does="sync_mark" if synchronises else self.next_of(state, actor))
        yield self.put(state, number, now, outside=(actor.journal, durable))

    def do_sync_mark(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        outside = state.outside if self.mutant == "mark never synchronised" else (state.outside[0],) * 2
        does = "remove" if actor.forces else self.next_of(state, actor)
        yield self.put(state, number, actor._replace(does=does, forces=False), outside=outside)

    def next_of(self, state: State, actor: Actor) -> str:
        """What follows the mark of a record."""
        early = self.mutant == "mark before journal"
        return "append" if early and len(actor.journal) > self.length(state, actor.folder) else "ready"

    def length(self, state: State, place: int) -> int:
        """The number of records in a folder."""
        return len(state.folders[place].segments[-1].journal)

    def do_ready(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        if actor.ends:
            yield self.gone(state, number)
            return
        if self.mutant == "no fork guard" and state.actors[1 - number] is None and free(actor.journal):
            yield self.put(state, 1 - number, actor)
        noted = free(actor.journal)
        if actor.position < noted:
            yield self.shown(state, number, actor)
            first = actor.position - (self.mutant == "clean end frees what was begun" and actor.position > 0)
            yield from self.note(state, number, actor._replace(ends=True), ("c", first, first, -1))
        elif actor.position > actor.saved and not actor.position % self.every:
            yield self.put(state, number, actor._replace(does="checkpoint"))
        elif actor.position == self.steps:
            yield self.gone(state, number)
        else:
            end = min(actor.position + self.ahead, self.steps)
            record = ("b", actor.position, end, state.nonces)
            counted = state._replace(nonces=state.nonces + 1)
            if self.mutant == "released before it is noted":
                early = actor._replace(journal=(*actor.journal, record))
                done = self.shown(counted, number, early)
                late = done.actors[number]
                assert late is not None
                yield self.put(done, number, late._replace(does="append"))
            else:
                yield from self.note(counted, number, actor, record)

    def note(self, state: State, number: int, actor: Actor, record: Record) -> Iterator[State]:
        does = "mark" if self.mutant == "mark before journal" else "check"
        yield self.put(state, number, actor._replace(does=does, journal=(*actor.journal, record)))

    def do_check(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        if self.length(state, actor.folder) != len(actor.journal) - 1:
            yield self.gone(state, number)  # the file has another size
        else:
            yield self.put(state, number, actor._replace(does="append"))

    def do_append(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        last = state.folders[actor.folder].segments[-1]
        journal = (*last.journal, actor.journal[-1])
        does = "ready" if self.mutant == "mark before journal" else "sync"
        durable = len(journal) if does == "ready" else last.durable
        changed = self.on_last(state, actor.folder, journal=journal, durable=durable, torn=2 * last.torn)
        yield self.put(state, number, actor._replace(does=does), **changed)

    def shown(self, state: State, number: int, actor: Actor) -> State:
        """The next step is released."""
        step = actor.position
        nonce = nonce_of(actor.journal, step)
        noise = 0 if self.mutant == "noise from the key alone" else nonce
        if any(earlier == step for earlier, _ in state.shown) and len(state.touched) < 2:
            self.faults.add("twice")
        if (step, noise) in state.shown:
            self.faults.add("same noise")
        return self.put(state, number, actor._replace(position=step + 1), shown=state.shown | {(step, noise)})

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def do_checkpoint(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        """It is written whole; a segment follows unless the run resumed from an older checkpoint."""
        folder = state.folders[actor.folder]
        before = [each for each in folder.checkpoints if each[0] < actor.position]
        written = self.at(state, actor.folder, checkpoints=(*before, (actor.position, actor.journal)), spoiled=False)
        last = folder.segments[-1]
        does = "sync_before" if actor.position > last.position else "remove"
        if does == "sync_before" and self.mutant == "mark not synchronised before a segment":
            does = "segment"
        yield self.put(state, number, actor._replace(does=does, saved=actor.position), **written)

    def do_sync_before(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        yield self.put(state, number, actor._replace(does="segment"), outside=(state.outside[0],) * 2)

    def do_segment(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        journal = (*actor.journal, ("h", actor.position, free(actor.journal), -1))
        segments = state.folders[actor.folder].segments
        new = Segment(actor.position, len(actor.journal), journal, len(journal), named=False)
        written = self.at(state, actor.folder, segments=(*segments, new))
        yield self.put(state, number, actor._replace(does="name", journal=journal, forces=True), **written)

    def do_remove(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        """The last two checkpoints stay, and the segments since the older one."""
        folder = state.folders[actor.folder]
        checkpoints = folder.checkpoints[-3 if folder.spoiled else -2 :]
        first = max(
            (each.position for each in folder.segments if each.position <= checkpoints[0][0]),
            default=folder.segments[0].position,
        )
        if self.mutant == "one segment kept":
            first = folder.segments[-1].position
        left = tuple(each for each in folder.segments if each.position >= first)
        removed = self.at(state, actor.folder, checkpoints=checkpoints, segments=left)
        yield self.put(state, number, actor._replace(does="ready"), **removed)

    # -- what happens to them ------------------------------------------------------------------------------------------

    def power_failure(self, state: State) -> Iterator[State]:
        """All processes end; each part that was not durable is there or not, and a record may be there in part."""
        ended = state._replace(actors=(None, None), holder=None, crashes=state.crashes - 1)
        worlds: list[tuple[Folder, ...]] = [()]
        for each in state.folders:
            *others, last = each.segments
            kept = [
                each._replace(
                    segments=(
                        *others,
                        last._replace(journal=last.journal[:length], durable=length, named=True, torn=t),
                    ),
                    holder=None,
                )
                for length in range(min(last.durable, len(last.journal)), len(last.journal) + 1)
                for t in ({last.torn, 1} if length < len(last.journal) else {last.torn})
            ]
            if not last.named:
                kept.append(each._replace(segments=tuple(others), holder=None))
            worlds = [(*world, one) for world in worlds for one in kept]
        for world in worlds:
            for outside in self.marks(*state.outside):
                yield ended._replace(folders=world, outside=(outside, outside))

    def marks(self, written: Journal | None, durable: Journal | None) -> set[Journal | None]:
        """The marks that a power failure may leave: any since the durable one."""
        if self.mutant == "mark in one block" and written != durable:
            return {written, durable, None}
        if written is None or durable is None or written[: len(durable)] != durable:
            return {written, durable}
        return {written[:length] for length in range(len(durable), len(written) + 1)}

    def tamper(self, state: State) -> Iterator[State]:
        folder = state.folders[0]
        done = state._replace(tamperings=state.tamperings - 1)
        if "unlock" in self.kinds:
            yield done._replace(**self.at(state, 0, holder=None))
        if "copy" in self.kinds and len(state.folders) == 1:
            yield done._replace(folders=(*state.folders, folder._replace(holder=None)))
        if "cut" in self.kinds:
            cut = done._replace(touched=state.touched | {"journal"})
            last = folder.segments[-1]
            for length in range(last.start + 1, len(last.journal)):
                for torn in (0, 1):
                    left = self.on_last(state, 0, journal=last.journal[:length], durable=length, torn=torn)
                    yield cut._replace(**left)
            if len(folder.segments) > 1:
                yield cut._replace(**self.at(state, 0, segments=folder.segments[:-1]))
            yield done._replace(outside=(None, None), touched=state.touched | {"mark"})
        if "restore" in self.kinds:
            if state.snapshot is None:
                yield state._replace(snapshot=(folder, state.outside[0]))
                return
            old, mark = state.snapshot
            for chosen in range(1, 8):
                changed: dict[str, Any] = {}
                if chosen & 1:
                    synced = tuple(each._replace(durable=len(each.journal), named=True) for each in old.segments)
                    changed |= {"segments": synced}
                if chosen & 2:
                    changed |= {"checkpoints": old.checkpoints, "spoiled": old.spoiled}
                touched = {name for name, bit in (("journal", 1), ("mark", 4)) if chosen & bit}
                yield done._replace(
                    **self.at(state, 0, **changed),
                    outside=(mark, mark) if chosen & 4 else state.outside,
                    touched=state.touched | touched,
                )


class Thread(NamedTuple):
    """A thread that adds noise to the batch that was handed out: its next action, and the step that it saw."""

    does: str = "check"
    step: int = -1


class Shared(NamedTuple):
    """What two threads share: the run, and the noise that was made, by its step."""

    threads: tuple[Thread, Thread] = (Thread(), Thread())
    position: int = 0
    handed: bool = True
    broken: bool = False
    holder: int | None = None
    made: tuple[int, ...] = ()


def _after(state: Shared, me: int, *, locked: bool) -> Iterator[Shared]:
    thread = state.threads[me]
    free = not locked or state.holder in (None, me)

    def to(does: str, step: int = thread.step, **changes: Any) -> Shared:
        threads = tuple(Thread(does, step) if k == me else other for k, other in enumerate(state.threads))
        return state._replace(threads=threads, **changes)  # type: ignore[arg-type]

    if thread.does == "check" and free:
        if state.handed and not state.broken:
            yield to("note", state.position, holder=me)
        else:
            yield to("end")
    elif thread.does == "note":
        yield to("make", broken=True)
    elif thread.does == "make":
        yield to("finish", made=(*state.made, thread.step))
        yield to("end", holder=None)  # an exception: it stays broken
    elif thread.does == "finish":
        yield to("end", position=state.position + 1, handed=False, broken=False, holder=None)


def interleavings(*, locked: bool) -> tuple[int, set[str]]:
    """All interleavings of two threads that add noise to one batch: the number of states, and the faults."""
    seen = {Shared()}
    queue = deque(seen)
    faults: set[str] = set()
    while queue:
        for me in range(2):
            for state in _after(queue[0], me, locked=locked):
                if len(state.made) > 1:
                    faults.add("two noises for one batch" if len(set(state.made)) > 1 else "the same noise twice")
                if state not in seen:
                    seen.add(state)
                    queue.append(state)
        queue.popleft()
    return len(seen), faults
