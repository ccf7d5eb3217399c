"""Addresses where no scheduler answers are named soon, and before anything is written."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from corrnoise.support import cluster
from corrnoise.support.cluster import client_of, require_scheduler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Something that takes connections."""
    monkeypatch.setattr(cluster, "GREETING", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "127.0.0.1", "tcp://127.0.0.1:port", "tcp://127.0.0.1:0"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(OSError, match="cluster must be an address such as"):
        require_scheduler(address)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "tcp://127.0.0.1:1", "tls://127.0.0.1:1"])
def test_nothing_takes_a_connection(address: str) -> None:
    pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    for call in (require_scheduler, lambda one: client_of(one).__enter__()):
        with pytest.raises(OSError, match=f"none answers at '{address}': .*refused"):
            call(address)


def test_a_name_that_is_searched_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: Any, **__: Any) -> Any:
        import time

        time.sleep(0.5)

    monkeypatch.setattr(cluster, "ANSWER", 0.01)
    monkeypatch.setattr(socket, "create_connection", search)
    with pytest.raises(OSError, match=r"none answers at 'nowhere:1': it took longer than 0\.01 seconds"):
        require_scheduler("nowhere:1")


def test_what_takes_connections_and_says_nothing_is_no_scheduler(server: socket.socket) -> None:
    address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(OSError, match=f"none answers at '{address}': timed out"):
        require_scheduler(address)
    require_scheduler(f"tls://{address}")  # which greets later
    require_scheduler("inproc://127.0.0.1/1/1")
