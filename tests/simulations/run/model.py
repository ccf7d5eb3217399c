"""A model of runs that share a folder: all interleavings of single writes, with crashes and tampering.

Two actors open the folder, note steps and release them.  A state holds what is on the disk and what of it is durable,
what each actor knows, and what was shown.  ``search`` visits all states breadth first, and returns the faults it sees:

``twice``
    A step was released twice, although at each opening one of journal, mark and outside mark was the newest.
``same noise``
    A step was released twice with the same nonce.
``refused``
    An opening was refused without tampering.

A mutant is a way to get the order of writes or the checks wrong; each has a fault of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

Record = tuple[str, int, int, int]  # kind, first, end, nonce
Journal = tuple[Record, ...]
Mark = tuple[Journal | None, Journal | None]  # as written, and as durable

_QUIET = {"steps": 1, "crashes": 0, "starts": 2}
_RESTORED = {**_QUIET, "tamperings": 1, "kinds": ("restore",)}
MUTANTS: dict[str, tuple[str, dict[str, Any]]] = {  # the fault of each mutant, and what it takes to see it
    "no lock": ("twice", _QUIET),
    "no fsync": ("refused", {"steps": 1, "crashes": 1, "starts": 2}),
    "no fsync at the opening": ("refused", {"steps": 1, "crashes": 2, "starts": 3}),
    "note after the release": ("twice", {"steps": 1, "crashes": 1, "starts": 2}),
    "mark before journal": ("refused", {"steps": 1, "crashes": 1, "starts": 2}),
    "marks not brought to the journal": ("refused", {"steps": 2, "crashes": 2, "starts": 3}),
    "noise from the key alone": ("same noise", _RESTORED),
    "marks not read": ("twice", _RESTORED),
    "no outside mark": ("twice", _RESTORED),
    "no outside lock": ("twice", {**_QUIET, "tamperings": 1, "kinds": ("unlock",)}),
    "no fork guard": ("same noise", {"steps": 2, "ahead": 2, "crashes": 0, "starts": 1}),
    "clean end frees what was begun": ("twice", {"steps": 2, "ahead": 2, "crashes": 0, "starts": 2}),
}


class Folder(NamedTuple):
    """A folder: its journal, how much of it is durable, its mark, and who holds its lock."""

    journal: Journal = ()
    durable: int = 0
    mark: Mark = ((), ())
    holder: int | None = None


class Actor(NamedTuple):
    """A process: what it does next, where, what it knows of the journal, and the first step not released."""

    does: str
    folder: int
    journal: Journal = ()
    position: int = 0
    ends: bool = False


class State(NamedTuple):
    """All that there is."""

    folders: tuple[Folder, ...] = (Folder(),)
    outside: Mark = ((), ())
    holder: int | None = None  # of the outside lock
    actors: tuple[Actor | None, ...] = (None, None)
    shown: frozenset[tuple[int, int]] = frozenset()
    used: frozenset[int] = frozenset()  # nonces of the records of which steps were shown
    nonces: int = 0
    excused: bool = False
    snapshot: tuple[Journal, Journal | None, Journal | None] | None = None
    crashes: int = 0
    tamperings: int = 0
    starts: int = 0


def free(journal: Journal) -> int:
    """The first step that was never begun."""
    return journal[-1][2] if journal else 0


def nonce_of(journal: Journal, step: int) -> int:
    """The nonce of the last record of a step."""
    return next(nonce for kind, first, end, nonce in reversed(journal) if kind == "b" and first <= step < end)


class Search:
    """A breadth-first search.

    Parameters
    ----------
    steps, ahead
        The length of the run, and how many steps a record covers.
    crashes, tamperings, starts
        How many there may be.
    kinds
        The kinds of tampering: ``restore``, ``cut``, ``unlock``, ``copy``.
    mutant
        What is wrong.
    """

    def __init__(
        self,
        *,
        steps: int = 2,
        ahead: int = 1,
        crashes: int = 2,
        tamperings: int = 0,
        starts: int = 3,
        kinds: tuple[str, ...] = (),
        mutant: str = "",
    ) -> None:
        self.steps, self.ahead, self.kinds, self.mutant = steps, ahead, kinds, mutant
        self.tampered = tamperings
        self.first = State(crashes=crashes, tamperings=tamperings, starts=starts)
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
        """What may happen next."""
        for number, actor in enumerate(state.actors):
            if actor is None:
                if state.starts and (number == 0 or state.actors[0] is not None):
                    for folder in range(len(state.folders)):
                        yield self.put(state, number, Actor("lock", folder), starts=state.starts - 1)
                continue
            yield from self.act(state, number, actor)
            if state.crashes:
                yield self.gone(state, number)._replace(crashes=state.crashes - 1)
        if state.crashes and any(state.actors):
            yield from self.power_failure(state)
        if state.tamperings:
            yield from self.tamper(state)

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

    def act(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        yield from getattr(self, "do_" + actor.does)(state, number, actor)

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
        journal = folder.journal
        parts = (journal, folder.mark[0], state.outside[0])
        checked: tuple[Journal | None, ...] = parts[1:2] if self.mutant == "no outside mark" else parts[1:]
        if self.mutant == "marks not read":
            checked = ()
        if any(m is None or journal[: len(m)] != m or len(m) < len(journal) - 1 for m in checked):
            if state.tamperings == self.tampered:
                self.faults.add("refused")
            yield self.gone(state, number)
            return
        newest = state.tamperings == self.tampered or any(
            state.used <= {record[3] for record in part or ()} for part in parts
        )
        does = "mark" if self.mutant == "no fsync at the opening" else "sync"
        if self.mutant == "marks not brought to the journal":
            does = "ready"
        now = actor._replace(does=does, journal=journal, position=free(journal))
        yield self.put(state, number, now, excused=state.excused or not newest)

    def do_sync(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        journal = state.folders[actor.folder].journal
        durable = state.folders[actor.folder].durable if self.mutant == "no fsync" else len(journal)
        yield self.put(state, number, actor._replace(does="mark"), **self.at(state, actor.folder, durable=durable))

    def do_mark(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        mark = (actor.journal, state.folders[actor.folder].mark[1])
        yield self.put(state, number, actor._replace(does="sync_mark"), **self.at(state, actor.folder, mark=mark))

    def do_sync_mark(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        mark = state.folders[actor.folder].mark[0]
        now = actor._replace(does="mark_outside")
        yield self.put(state, number, now, **self.at(state, actor.folder, mark=(mark, mark)))

    def do_mark_outside(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        outside = (actor.journal, state.outside[1])
        yield self.put(state, number, actor._replace(does="sync_outside"), outside=outside)

    def do_sync_outside(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        does = "ready"
        if self.mutant == "mark before journal" and len(actor.journal) > len(state.folders[actor.folder].journal):
            does = "append"
        yield self.put(state, number, actor._replace(does=does), outside=(state.outside[0],) * 2)

    def do_ready(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        if actor.ends:
            yield self.gone(state, number)
            return
        if self.mutant == "no fork guard" and state.actors[1 - number] is None and actor.journal:
            yield self.put(state, 1 - number, actor)
        noted = free(actor.journal)
        if actor.position < noted:
            yield self.shown(state, number, actor)
            first = actor.position - (self.mutant == "clean end frees what was begun" and actor.position > 0)
            yield from self.note(state, number, actor._replace(ends=True), ("c", first, first, -1))
        elif actor.position == self.steps:
            yield self.gone(state, number)
        else:
            end = min(actor.position + self.ahead, self.steps)
            record = ("b", actor.position, end, state.nonces)
            counted = state._replace(nonces=state.nonces + 1)
            if self.mutant == "note after the release":
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
        if len(state.folders[actor.folder].journal) != len(actor.journal) - 1:
            yield self.gone(state, number)  # the file has another size
        else:
            yield self.put(state, number, actor._replace(does="append"))

    def do_append(self, state: State, number: int, actor: Actor) -> Iterator[State]:
        folder = state.folders[actor.folder]
        journal = (*folder.journal, actor.journal[-1])
        does = "ready" if self.mutant == "mark before journal" else "sync"
        durable = len(journal) if does == "ready" else folder.durable
        changed = self.at(state, actor.folder, journal=journal, durable=durable)
        yield self.put(state, number, actor._replace(does=does), **changed)

    def shown(self, state: State, number: int, actor: Actor) -> State:
        """The next step is released."""
        step = actor.position
        nonce = nonce_of(actor.journal, step)
        noise = 0 if self.mutant == "noise from the key alone" else nonce
        if any(earlier == step for earlier, _ in state.shown) and not state.excused:
            self.faults.add("twice")
        if (step, noise) in state.shown:
            self.faults.add("same noise")
        now = actor._replace(position=step + 1)
        return self.put(state, number, now, shown=state.shown | {(step, noise)}, used=state.used | {nonce})

    # -- what happens to them ------------------------------------------------------------------------------------------

    def power_failure(self, state: State) -> Iterator[State]:
        """All processes end; what was not durable is there or not, each by itself."""
        ended = state._replace(actors=(None, None), holder=None, crashes=state.crashes - 1)
        worlds: list[tuple[Folder, ...]] = [()]
        for each in state.folders:
            kept = [
                Folder(each.journal[:length], length, (mark, mark))
                for length in range(min(each.durable, len(each.journal)), len(each.journal) + 1)
                for mark in set(each.mark)
            ]
            worlds = [(*world, one) for world in worlds for one in kept]
        for world in worlds:
            for outside in set(state.outside):
                yield ended._replace(folders=world, outside=(outside, outside))

    def tamper(self, state: State) -> Iterator[State]:
        folder = state.folders[0]
        done = state._replace(tamperings=state.tamperings - 1)
        if "unlock" in self.kinds:
            yield done._replace(**self.at(state, 0, holder=None))
        if "copy" in self.kinds and len(state.folders) == 1:
            yield done._replace(folders=(*state.folders, folder._replace(holder=None)))
        if "cut" in self.kinds:
            for length in range(len(folder.journal)):
                yield done._replace(**self.at(state, 0, journal=folder.journal[:length], durable=length))
            yield done._replace(**self.at(state, 0, mark=(None, None)))
            yield done._replace(outside=(None, None))
        if "restore" in self.kinds:
            now = (folder.journal, folder.mark[0], state.outside[0])
            if state.snapshot is None:
                yield state._replace(snapshot=now)
                return
            for chosen in range(1, 8):
                journal, mark, outside = (
                    old if chosen >> k & 1 else new
                    for k, (old, new) in enumerate(zip(state.snapshot, now, strict=True))
                )
                assert journal is not None
                changed = self.at(state, 0, journal=journal, durable=len(journal), mark=(mark, mark))
                yield done._replace(**changed, outside=(outside, outside))


class Thread(NamedTuple):
    """A thread that adds noise to the batch that was handed out: what it does next, and the step that it saw."""

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
