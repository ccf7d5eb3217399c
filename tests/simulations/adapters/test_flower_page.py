"""The page on Flower, as a stranger follows it: a simulation, and a deployment that is killed in parts."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from corrnoise.simulations.federation import client
from corrnoise.simulations.federation.client import ClientState
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.server import FederatedServer
from corrnoise.support.serialise import load

pytest.importorskip("flwr.app")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/flower.md"
NAMES = ("ada", "bob", "eve")


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Stranger:
    """Somebody who copies the files of the page to a folder and types its commands there."""

    def __init__(self, folder: Path, rounds: int) -> None:
        text = PAGE.read_text(encoding="utf-8").replace("rounds=6", f"rounds={rounds}")
        text = text.replace("~/.flwr/config.toml", "config.toml")
        for shown, found in zip(("8000", "8011", "8012", "8013"), free_ports(4), strict=True):
            text = text.replace(shown, str(found))
        self.folder = folder
        for name, content in re.findall(r"```\w+\n# (\S+\.\w+)\n(.*?)```", text, re.DOTALL):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {
            "PATH": programs,
            "PWD": str(folder),
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        }
        self.blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        self.started: list[subprocess.Popen[bytes]] = []
        self.paste(self.blocks[0])

    def paste(self, lines: str) -> None:
        """Run lines of the page in a shell, to their end."""
        subprocess.run(["sh", "-ec", lines], cwd=self.folder, env=self.environment, check=True, timeout=120)

    def type(self, line: str, log: str) -> "subprocess.Popen[bytes]":
        """Start a command of the page in the background."""
        words = shlex.split(line.removesuffix("&").replace("$PWD", str(self.folder)))
        with (self.folder / log).open("ab") as out:
            process = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdout=out, stderr=out, start_new_session=True
            )
        self.started.append(process)
        return process

    def log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait(self, condition: str, log: str, seconds: float) -> None:
        """Until a text is in a log."""
        until = time.monotonic() + seconds
        while condition not in self.log(log):
            assert time.monotonic() < until, f"no {condition!r} in {log}:\n{self.log(log)[-3000:]}"
            time.sleep(0.5)

    def leave(self) -> None:
        """Kill the started processes and their children."""
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def check(self, rounds: int) -> None:
        """All rounds are over, and each message of a client has arrived or is in its outbox."""
        plan = Plan.load(self.folder / "plan.json")
        ended = FederatedServer(plan, NAMES, self.folder / "server")
        assert ended.finished
        assert ended.state.rejected == 0
        assert np.any(ended.output != 0)
        counts = []
        for name in NAMES:
            state = load(self.folder / name / client.STATE, client.STATE_KINDS)
            assert isinstance(state, ClientState)
            counts.append(state.participations)
            arrived = ended.state.acknowledged.get(name, 0)
            assert arrived <= state.participations == arrived + len(state.outbox) or state.participations - arrived <= 1
        assert rounds <= sum(counts) <= 2 * rounds


@contextlib.contextmanager
def stranger(folder: Path, rounds: int) -> Iterator[Stranger]:
    who = Stranger(folder, rounds)
    try:
        yield who
    finally:
        who.leave()


def test_a_simulation(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with stranger(tmp_path, 3) as who:
        link, run = who.blocks[1].splitlines()
        who.type(link, "link.log")
        who.wait("Uvicorn running", "link.log", 60)
        assert who.type(run, "run.log").wait(240) == 0
        who.check(3)


def test_a_simulation_of_a_wrapped_strategy(tmp_path: Path) -> None:
    """It moves to the model of the data, and a second run finds all rounds made."""
    pytest.importorskip("ray")
    with stranger(tmp_path, 3) as who:
        link, run = who.blocks[5].splitlines()
        who.type(link, "link.log")
        who.wait("Uvicorn running", "link.log", 60)
        models = []
        for log in ("run.log", "again.log"):
            assert who.type(run, log).wait(240) == 0
            assert "guarantee: the models of 8 rounds" in who.log(log)
            (words,) = re.findall(r"^(?:.*\s)?model (.*)$", who.log(log), re.MULTILINE)
            models.append([float(word) for word in words.split()])
        assert "[ROUND 8/8]" in who.log("run.log")
        assert "[ROUND" not in who.log("again.log")
        assert models[0] == models[1]
        assert np.linalg.norm(np.subtract(models[0], [0.5, -0.3, 0.2])) < 0.5


def test_a_deployment_with_certificates(tmp_path: Path) -> None:
    """Over TLS, where one owner trusts apps of one key alone: the app has no signature, and does not run there."""
    with stranger(tmp_path, 2) as who:
        who.paste(who.blocks[3])
        link, *nodes, run = who.blocks[4].splitlines()
        who.type(link, "link.log")
        who.wait("Uvicorn running on https", "link.log", 60)
        assert who.type(run.replace(" safe ", " here "), "open.log").wait(120) != 0  # TLS is needed
        key = ed25519.Ed25519PrivateKey.generate().public_key()
        shown = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
        (tmp_path / "keys.yaml").write_text(f"fpk_bob: {shown}\n")
        nodes[1] = nodes[1].removesuffix("&") + "--trusted-entities keys.yaml"
        for line, name in zip(nodes, NAMES, strict=True):
            who.type(line, f"{name}.log")
        assert who.type(run, "run.log").wait(300) == 0
        who.check(2)
        assert "could not be verified" in who.log("bob.log")
        assert "could not be verified" in who.log("run.log")
        assert "flwr-clientapp" not in who.log("bob.log")
        assert "flwr-clientapp" in who.log("ada.log")
        state = load(tmp_path / "bob" / client.STATE, client.STATE_KINDS)
        assert isinstance(state, ClientState)
        assert state.participations == 0


def test_a_deployment_whose_parts_are_killed(tmp_path: Path) -> None:
    """Nodes and the SuperLink die at random instants of rounds, which take about 20 s."""
    rounds = 6
    rng = np.random.default_rng(28)
    with stranger(tmp_path, rounds) as who:
        link_line, *node_lines, run_line = who.blocks[2].splitlines()
        link = who.type(link_line, "link.log")
        who.wait("Uvicorn running", "link.log", 60)
        nodes = [who.type(line, f"{name}.log") for line, name in zip(node_lines, NAMES, strict=True)]
        who.type(run_line, "run-1.log")

        for number, node in ((2, 1), (3, 2)):
            who.wait(f"ROUND {number}/", "run-1.log", 240)
            time.sleep(rng.uniform(0, 15))
            os.killpg(nodes[node].pid, signal.SIGKILL)
            time.sleep(rng.uniform(0, 5))
            who.type(node_lines[node], f"{NAMES[node]}.log")

        who.wait("ROUND 4/", "run-1.log", 240)
        time.sleep(rng.uniform(0, 15))
        link.kill()  # its children live on for a while
        link.wait()
        time.sleep(2)
        who.type(link_line, "link-2.log")
        who.wait("Uvicorn running", "link-2.log", 60)
        until = time.monotonic() + 600
        for attempt in range(2, 100):  # refused while the old server app lives
            who.type(run_line, f"run-{attempt}.log").wait(400)
            if "Strategy execution finished" in who.log(f"run-{attempt}.log"):
                break
            assert time.monotonic() < until, who.log(f"run-{attempt}.log")[-3000:]
        who.check(rounds)
