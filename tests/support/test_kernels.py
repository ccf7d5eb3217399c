"""Compiled functions: cached where a folder can be written, compiled without a cache elsewhere, or run by Python."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from corrnoise.support import kernels
from corrnoise.support.kernels import is_kept, kernel


def half(x):
    """Half of a number; 0 divided by it warns in Python."""
    return x / 2


def rest(x, y):
    """The rest of a square."""
    return x * x - y


def never_called(x):
    """No test calls it."""
    return x


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    kernels.log_missing_cache.cache_clear()
    caplog.set_level(logging.WARNING, "corrnoise")
    return caplog


def test_options_are_those_of_numba(log: pytest.LogCaptureFixture) -> None:
    plain, fast = kernel(half), kernel(fastmath=True)(half)
    assert plain(3.0) == fast(3.0) == 1.5
    assert {"nogil": True, "error_model": "numpy"}.items() <= plain.targetoptions.items()
    assert fast.targetoptions["fastmath"] is True
    assert Path(plain.stats.cache_path).is_dir()
    assert not log.records


def test_options_have_machine_code_of_their_own() -> None:
    """A cache that knows the name alone would give one the code of the other."""
    plain, fused = kernel(rest), kernel(fastmath={"contract"})(rest)
    x = 1 + 2.0**-30
    assert plain(x, 1 + 2.0**-29) == 0.0
    assert fused(x, 1 + 2.0**-29) in (0.0, 2.0**-60)  # for processors without and with fused operations
    assert is_kept(fused)
    assert {each.__name__ for each in (plain.py_func, fused.py_func)} == {"rest"}
    assert plain.py_func.__qualname__ != fused.py_func.__qualname__


@pytest.mark.parametrize("home", [True, False])
def test_a_missing_cache_is_logged_once(
    home: bool, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "has_cache_home", lambda: home)
    njit = numba.njit

    def without_locators(*arguments: Any, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function 'half': no locator available")
        return njit(*arguments, **options)

    monkeypatch.setattr(numba, "njit", without_locators)
    for _ in range(3):
        made = kernel(half)
        assert made(3.0) == 1.5
        assert made.stats.cache_path is None
    [record] = log.records
    assert "set NUMBA_CACHE_DIR" in record.getMessage()


def test_other_faults_of_a_kernel_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("another fault")

    monkeypatch.setattr(numba, "njit", fails)
    with pytest.raises(RuntimeError, match="another fault"):
        kernel(half)


@pytest.mark.parametrize(("home", "expected"), [("~", False), ("/users/me", True)])
def test_a_home_folder_is_an_absolute_path(home: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr("os.path.expanduser", lambda _: home)
    assert kernels.has_cache_home() == expected
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/cache")
    assert kernels.has_cache_home()


SILENT = """
import numpy as np
from corrnoise.support.kernels import is_kept, kernel

@kernel
def quotient(x, y):
    return x / y

with np.errstate(all="raise"):
    print(quotient(np.float64(1.0), np.float64(0.0)))
"""


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_arithmetic_is_as_silent_without_the_compiler(disabled: str, tmp_path: Path) -> None:
    file = tmp_path / "silent.py"
    file.write_text(SILENT)
    source = str(Path(kernels.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(file)],
        env={"PATH": "", "PYTHONPATH": source, "NUMBA_DISABLE_JIT": disabled, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("inf\n", "")


def test_machine_code_in_the_cache_is_found() -> None:
    plain = kernel(half)
    plain(3.0)
    assert is_kept(plain)
    assert not is_kept(kernel(never_called))
    assert is_kept(half)  # Python runs it
