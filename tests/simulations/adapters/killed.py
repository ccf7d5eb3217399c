"""The example of a library on the page on training, in processes that are killed at random writes.

    python killed.py HEADING FOLDER SEED KILLS EPOCHS

Each start is a fork of this process, which has imported the library.  Key, nonces and order are functions of the step,
so that runs in two folders draw the same noise.  A JSON object is printed: the number of writes to the disk (fsync) of
a run that is left alone, and for each start what it printed and a digest of the parameters, or the signal of its end.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import re
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from corrnoise.simulations.adapters import training
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.journal import Journal
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.pages import script

LIBRARIES = {
    "PyTorch": ["torch"],
    "Sampled batches": ["torch"],
    "Opacus": ["torch"],
    "JAX": ["jax", "optax"],
    "loop": ["torch"],
    "Adam": ["torch"],
    "BERT": ["torch", "transformers.models.bert.modeling_bert"],
    "GPT-2": ["torch", "peft", "transformers.models.gpt2.modeling_gpt2"],
    "Trainer": ["torch", "accelerate", "transformers.trainer", "transformers.models.bert.modeling_bert"],
    "Accelerate": ["torch", "accelerate", "transformers.models.bert.modeling_bert"],
    "Lightning": ["torch", "lightning"],
    "first model": ["torch"],
    "Low-rank adapters": ["torch"],
    "Export": ["torch", "safetensors.torch", "transformers.models.gpt2.modeling_gpt2"],
}
STEPS_OF_EPOCH = {"first model": 62, "Low-rank adapters": 10, "Export": 4}  # others have 20


def flat(names: dict[str, Any]) -> bytes:
    """The trained parameters."""
    run = names["run"] if "run" in names else names["criterion"].run
    if "jax" in names:
        return b"".join(np.asarray(each).tobytes() for each in run.parameters.values())
    return b"".join(each.detach().numpy().tobytes() for each in run.model.parameters())


def in_order(who: Participation, examples: int, size: int) -> Any:
    """Batches in an order that is the same in all runs; sampled ones follow from the key."""
    return batches(who, examples, size, rng=None if who.sampled else 0)


def command(text: str, place: Path, last: int | None) -> dict[str, Any]:
    """The example in a folder; the process is killed at the write with the number ``last``."""
    os.chdir(place)
    writes = 0
    fsync = os.fsync

    def counted(file: int) -> None:
        nonlocal writes
        writes += 1
        if writes == last:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)

    mock.patch.object(os, "fsync", counted).start()
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, "the page", "exec"), names)
    return {"writes": writes, "printed": printed.getvalue(), "digest": hashlib.sha256(flat(names)).hexdigest()}


def start(text: str, place: Path, last: int | None = None) -> dict[str, Any]:
    """The same in a process of its own."""
    place.mkdir(exist_ok=True)
    out = place / "found.json"
    out.unlink(missing_ok=True)
    if not (child := os.fork()):
        try:
            out.write_text(json.dumps(command(text, place, last)))
        finally:
            os._exit(not out.exists())
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return dict(json.loads(out.read_text()))


def main(heading: str, folder: Path, seed: int, kills: int, epochs: int) -> None:
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    for name in LIBRARIES[heading]:
        import_module(name)
    import_module("sklearn.datasets").load_digits()
    if heading != "JAX":
        import_module("torch").set_num_threads(1)
    noise = NuFTRL(0.05)
    with PrivateRun(Budget(1.0), Participation.single(2), noise, 2410) as run:  # its kernels are compiled
        for _ in run:
            run.add_noise(np.zeros(2410, np.float32))
    mock.patch.object(training, "default_noise", return_value=noise).start()
    mock.patch.object(training, "batches", in_order).start()
    mock.patch.object(draws, "fresh", lambda size: bytes(range(size))).start()
    mock.patch.object(Journal, "nonce", lambda _, step: step.to_bytes(draws.NONCE_BYTES, "big")).start()
    text = re.sub(r"(?<![\w-])epochs=\d+", f"epochs={epochs}", script(heading))
    text = text.replace("poisson(400", f"poisson({20 * epochs}")
    whole = start(text, folder / "whole")
    chosen = random.Random(seed)
    broken = folder / "broken"
    starts = [start(text, broken, chosen.randrange(1, whole["writes"])) for _ in range(kills)]
    print(json.dumps([whole, *starts, start(text, broken), start(text, broken)]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
