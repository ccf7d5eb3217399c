"""The oracle of the tests: a mutant of a file is killed if a test that can reach the file fails.

Each mutant runs in a copy of the repository: first the tests of its own module, then the other tests of ``theory/``,
the ledger of claims, and the simulations, as far as they can reach it through imports; the first failure kills it.
Finished mutants are kept in ``.mutation/`` and not run again.  Survivors with a known reason are in
``tests_survivors.toml``.  A mutant that changes no value is equivalent, and no test can kill it; of the others at least
95 % must be killed, and every survivor must have a reason, or the exit status is 1.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tools.mutation.reach import reaches
from tools.mutation.sources import Mutant

ROOT = Path(__file__).parents[2]
REQUIRED = 0.95
_MAX_RUN_SECONDS = 600  # a test run that takes longer is killed, and so is its mutant
_LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "corrnoise-*", "*.nbi", "*.nbc")


class Workshop:
    """A copy of the repository for the test of one mutant at a time; ``near``: by the tests of its module alone."""

    def __init__(self, folder: Path, near: bool) -> None:
        self.root = folder
        self.near = near
        shutil.copytree(ROOT, folder, symlinks=True, ignore=_LEFT_BEHIND)
        self.clock = 0

    def _write(self, module: str, source: str) -> None:
        """Write a module with a time of its own, so that no compiled code of another mutant is taken for it."""
        self.clock += 10
        path = self.root / module
        path.write_text(source)
        time = path.stat().st_mtime + self.clock
        os.utime(path, (time, time))

    def _passes(self, *tests: str, seconds: float = _MAX_RUN_SECONDS, processes: int = 0) -> bool:
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
        command += ["-n", str(processes), *tests]
        try:
            done = subprocess.run(
                command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode > 2:  # not passed, failed, not even importable, or ended by a signal
            raise RuntimeError(
                f"pytest ended with status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.returncode == 0

    def stages(self, module: str) -> Iterator[tuple[str, ...]]:
        """The tests to run, those likeliest to notice first; none twice."""
        path = self.root / "tests" / module
        done: set[Path] = set()
        patterns = (
            path.with_name(f"test_{path.name}").relative_to(self.root).as_posix(),
            f"{path.parent.relative_to(self.root).as_posix()}/test_*.py",
            "tests/theory/**/test_*.py",
            "tests/paper_checks/test_claims.py",
            "tests/simulations/**/test_*.py",
        )
        for pattern in patterns[:1] if self.near else patterns:
            tests = [test for test in sorted(self.root.glob(pattern)) if test not in done]
            done.update(tests)
            tests = [test for test in tests if reaches(self.root, test, module)]
            if tests:
                yield tuple(test.relative_to(self.root).as_posix() for test in tests)

    def check_itself(self, modules: Iterable[str], jobs: int) -> None:
        """Refuse to start where the tests fail without any mutant: everything would count as killed."""
        tests = sorted({test for module in modules for stage in self.stages(module) for test in stage})
        if tests and not self._passes(*tests, seconds=5 * _MAX_RUN_SECONDS, processes=jobs):
            raise RuntimeError(f"the tests fail without any mutant: pytest -m 'not slow' {' '.join(tests)}")

    def survives(self, mutant: Mutant) -> bool:
        """Whether all tests pass with the mutant in place."""
        original = (self.root / mutant.module).read_text()
        self._write(mutant.module, mutant.source(ROOT))
        try:
            return all(self._passes(*tests) for tests in self.stages(mutant.module))
        finally:
            self._write(mutant.module, original)


@dataclass(frozen=True)
class Reason:
    """Why a mutant survives; ``equivalent`` if no value changes, beyond rounding, that any test could notice."""

    text: str
    equivalent: bool


def reasons() -> dict[tuple[str, str, str], Reason]:
    """The known survivors: module, line before and after, and why no test can or need notice."""
    table = tomllib.loads(Path(__file__).with_name("tests_survivors.toml").read_text())
    return {
        (entry["module"], entry["before"], entry["after"]): Reason(entry["reason"], entry.get("equivalent", False))
        for entry in table.get("survivor", [])
    }


def run(chosen: Sequence[Mutant], jobs: int, near: bool) -> dict[Mutant, bool]:
    """Test the mutants not yet tested; the result says which survived."""
    record = ROOT / ".mutation" / ("near.jsonl" if near else "results.jsonl")
    record.parent.mkdir(exist_ok=True)
    known: dict[tuple[str, str, str], bool] = {}
    if record.exists():
        for line in record.read_text().splitlines():
            entry = json.loads(line)
            known[entry["module"], entry["before"], entry["after"]] = entry["survived"]

    waiting = [mutant for mutant in chosen if mutant.key not in known]
    print(f"{len(chosen)} mutants, {len(chosen) - len(waiting)} of them tested before", flush=True)
    with tempfile.TemporaryDirectory() as folder, record.open("a") as file:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        for k in range(jobs):
            workshop = Workshop(Path(folder, str(k)), near)
            if k == 0:
                workshop.check_itself({mutant.module for mutant in waiting}, jobs)
            workshops.put(workshop)

        def test(mutant: Mutant) -> tuple[Mutant, bool]:
            workshop = workshops.get()
            try:
                return mutant, workshop.survives(mutant)
            finally:
                workshops.put(workshop)

        with ThreadPoolExecutor(jobs) as pool:
            for number, (mutant, survived) in enumerate(pool.map(test, waiting), start=1):
                known[mutant.key] = survived
                entry = dict(zip(("module", "before", "after"), mutant.key, strict=True)) | {"survived": survived}
                print(json.dumps(entry, ensure_ascii=False), file=file, flush=True)
                word = "SURVIVED" if survived else "killed"
                print(f"[{number}/{len(waiting)}] {word} {mutant.module}:{mutant.line}  {mutant.after}", flush=True)
    return {mutant: known[mutant.key] for mutant in chosen}


def report(results: dict[Mutant, bool]) -> int:
    """Print the share of mutants killed and the survivors with their reasons; return the exit status."""
    explained = reasons()
    survivors = {m: explained.get(m.key) for m, survived in results.items() if survived}
    killed, equivalent = len(results) - len(survivors), sum(bool(r and r.equivalent) for r in survivors.values())
    score = killed / max(len(results) - equivalent, 1)
    print(f"\nkilled {killed} of {len(results)} mutants ({killed / len(results):.1%})")
    print(f"{equivalent} of the {len(survivors)} survivors are equivalent: no value changes.  Of the rest: {score:.1%}")
    for mutant, reason in survivors.items():
        kind = "  equivalent: " if reason and reason.equivalent else "  "
        told = reason.text if reason else "NO REASON IS KNOWN"
        print(f"\n{mutant.module}:{mutant.line}\n- {mutant.before}\n+ {mutant.after}\n{kind}{told}")
    return int(score < REQUIRED or None in survivors.values())
