"""``corrnoise federate``: output, files, refusals, resuming, and the enrolment of a client."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.__main__ import main
from corrnoise.simulations.federation import bench
from corrnoise.simulations.federation.client import STATE
from corrnoise.simulations.federation.server import FederatedServer
from corrnoise.support.reading import LARGE
from corrnoise.support.serialise import load
from tests.simulations.federation.federations import plan_of

SMALL = ("federate", "--machines", "20", "--participants", "10", "--adjacency", "replace-one")


def test_a_run_is_written_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    command = [*SMALL, "--rounds", "12", "--rho", "200", "--batch", "4", "--output", str(folder)]
    assert main(command) == 0
    written = json.loads((folder / "result.json").read_text())
    assert (written["rounds"], written["rho"], written["unit"]) == (12, 200.0, "example")
    assert 0.2 < written["test_accuracy"] < 1
    output = capsys.readouterr()
    assert "test accuracy" in output.out
    assert "weak promise" in output.err
    model = np.load(folder / "model.npy")
    assert {path.name for path in folder.iterdir()} == {
        *(f"client-{i}" for i in range(20)), "server", "result.json", "model.npy",
    }  # fmt: skip
    assert all((folder / f"client-{i}").stat().st_mode & 0o077 == 0 for i in range(20))
    assert main(command) == 0  # the run is over, and nothing is spent again
    np.testing.assert_array_equal(np.load(folder / "model.npy"), model)
    assert main([*command, "--rho", "8"]) == 1
    assert "must be of this plan" in capsys.readouterr().err


def test_too_few_clients_in_the_end_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*SMALL, "--batch", "25", "--rounds", "8", "--output", str(tmp_path / "run")]
    assert main(command) == 3
    output = capsys.readouterr()
    assert "exhausted after about 4 of 8 rounds" in output.err
    assert json.loads((tmp_path / "run" / "result.json").read_text())["exhausted"] == 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--data", "mnist"), "--download must be True for 'MNIST'"),
        (("--participants", "21"), "--participants must be at most machines, got 21 of 20"),
        (("--participants", "0"), "--participants must be"),
        (("--machines", "2000"), "targets must have at least one example a client, 2000, got 1077"),
        (("--rounds", "0"), "--rounds must be"),
        (("--batch", "0"), "--batch must be"),
        (("--rho", "0"), "--rho must lie in"),
        (("--clip-norm", "-1"), "--clip-norm must lie in"),
        (("--learning-rate", "nan"), "--learning-rate must lie in"),
        (("--delta", "2"), "--delta must"),
        (("--epsilon", "2", "--rho", "8"), "either by --rho or by --epsilon and --delta"),
        (("--epsilon", "-2"), "--epsilon must"),
    ],
)
def test_bad_values_are_one_line_and_leave_nothing(
    options: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, "--noise", "constant", *options, "--output", str(tmp_path / "run")]) == 2
    output = capsys.readouterr()
    assert words in output.err.splitlines()[-1]
    assert not output.out
    assert not (tmp_path / "run").exists()


def test_a_budget_in_epsilon_and_delta_is_kept(tmp_path: Path) -> None:
    options = ["--rounds", "2", "--noise", "constant", "--epsilon", "4", "--delta", "1e-6", "--output", str(tmp_path)]
    assert main([*SMALL, *options]) == 0
    written = json.loads((tmp_path / "result.json").read_text())
    assert written["delta"] == 1e-6
    assert 4 * (1 - 1e-6) <= written["epsilon"] <= 4


def test_adjacency_is_stated_by_the_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["federate", "--output", str(tmp_path / "run")]) == 2
    assert "--adjacency must be given" in capsys.readouterr().err


class OpenML:
    """A stand-in for OpenML, whose data set 554 is 70 000 images of four pixels, one of which is bright in each."""

    def __init__(self) -> None:
        digits = np.random.default_rng(0).integers(0, 10, 70000)
        pixels = 255 * np.eye(4, dtype=int)[digits % 4]
        names = [f"pixel{k}" for k in range(4)]
        head = [f"@ATTRIBUTE {name} REAL" for name in names] + ["@ATTRIBUTE class {0,1,2,3,4,5,6,7,8,9}", "@DATA"]
        rows = [",".join(map(str, (*row, digit))) for row, digit in zip(pixels, digits, strict=True)]
        file = "\n".join(["@RELATION mnist_784", *head, *rows]).encode()
        columns = [
            {
                "index": str(k),
                "name": name,
                "data_type": "nominal" if name == "class" else "numeric",
                "is_target": str(name == "class").lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for k, name in enumerate([*names, "class"])
        ]
        description = {
            "id": "554",
            "description": "a stand-in",
            "name": "mnist_784",
            "version": "1",
            "status": "active",
            "format": "ARFF",
            "url": "https://www.openml.org/data/v1/download/52667/mnist_784.arff",
            "md5_checksum": hashlib.md5(file).hexdigest(),
        }
        count = {"name": "NumberOfInstances", "value": "70000"}
        self.served = {
            "/data/features/554": json.dumps({"data_features": {"feature": columns}}).encode(),
            "/data/qualities/554": json.dumps({"data_qualities": {"quality": [count]}}).encode(),
            "/data/554": json.dumps({"data_set_description": description}).encode(),
            "mnist_784.arff": file,
        }
        self.asked = 0

    def __call__(self, request: Any, *_: Any, **__: Any) -> Any:
        self.asked += 1
        (content,) = [body for end, body in self.served.items() if request.full_url.endswith(end)]
        answer = io.BytesIO(content)
        answer.info = dict  # type: ignore[attr-defined]
        return answer


@pytest.mark.slow
def test_mnist_is_fetched_once_and_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("sklearn.datasets._openml")
    server = OpenML()
    monkeypatch.setattr(module, "urlopen", server)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    options = ["--data", "mnist", "--download", "--adjacency", "replace-one", "--noise", "constant", "--rho", "1e6"]
    options += ["--participants", "20", "--batch", "30", "--learning-rate", "30"]
    for run in ("one", "two"):
        assert main(["federate", *options, "--rounds", "20", "--output", str(tmp_path / run)]) == 0
    assert server.asked == 4  # the second run reads the cache
    written = json.loads((tmp_path / "two" / "result.json").read_text())
    assert written["machines"] == 100
    assert 0.2 < written["test_accuracy"] < 0.5  # four pixels tell four classes of digits apart
    features, targets = load(tmp_path / "two" / "client-0" / "data.npz", most_bytes=LARGE)
    assert features.shape == (600, 5)
    np.testing.assert_array_equal(np.unique(features), [0.0, 1.0])
    np.testing.assert_array_equal(features.argmax(axis=1), targets % 4)


def test_an_interrupted_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*SMALL, "--rounds", "6", "--noise", "constant", "--output", str(tmp_path)]
    finish = FederatedServer.finish_round

    def interrupted(self: FederatedServer) -> None:
        if self.state.round == 4:
            raise KeyboardInterrupt
        finish(self)

    with monkeypatch.context() as patched:
        patched.setattr(FederatedServer, "finish_round", interrupted)
        assert main(command) == 130
    assert "the same command continues" in capsys.readouterr().err
    assert not (tmp_path / "result.json").exists()
    with monkeypatch.context() as patched:
        patched.setattr(bench, "enrol", None)  # nobody is enrolled again
        assert main(command) == 0


def test_a_task_of_a_cluster_touches_one_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    class Workers:
        """A Dask client that runs tasks at once."""

        def __enter__(self) -> "Workers":
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, function: Any, *arguments: Any, pure: bool) -> Any:
            assert not pure
            seen.append({str(one) for one in arguments if isinstance(one, Path)})
            value = function(*arguments)
            return type("Done", (), {"result": lambda _: value})()

    monkeypatch.setattr(bench, "require_scheduler", lambda _: None)
    monkeypatch.setattr("corrnoise.commands.federate.require_scheduler", lambda _: None)
    monkeypatch.setattr(bench, "client_of", lambda _: Workers())
    options = ["--rounds", "2", "--noise", "constant", "--cluster", "tcp://here:1", "--output", str(tmp_path)]
    assert main([*SMALL, *options]) == 0
    assert len(seen) == 20
    assert all(len(folders) == 1 for folders in seen)


def test_a_client_is_enrolled_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_of().save(tmp_path / "plan.json")
    command = ["federate", "enrol", "--plan", str(tmp_path / "plan.json"), "--folder", str(tmp_path / "ada")]
    assert main(command) == 2
    assert "--examples must be given" in capsys.readouterr().err
    assert main([*command, "--examples", "9"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("ada ")
    assert len(shown.out.splitlines()) == 1
    assert "promises 2-zCDP, or (9.998, 1e-05)-DP, for one example with replace-one adjacency, against any" in shown.err
    assert (tmp_path / "ada" / STATE).exists()
    assert main([*command, "--examples", "9"]) == 1
    assert "spends the budget again" in capsys.readouterr().err
