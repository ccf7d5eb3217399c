"""Dask clusters by the address of their scheduler, and a clear error soon where none answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

ANSWER = 1.5  #: seconds for a scheduler to take a connection
GREETING = 10.0  #: seconds for it to say its first byte, also if it is busy
PATIENCE = 60.0  #: seconds for it and its first worker to say more


def require_scheduler(address: str) -> None:
    """Refuse an address where nothing takes a connection, or nothing that greets as schedulers do.

    OSError says why.
    """
    place = urlsplit(address if "://" in address else f"tcp://{address}")
    if place.scheme not in ("tcp", "tls"):
        return
    try:
        host, port = place.hostname, place.port
    except ValueError:  # of a port that is not a number
        host, port = None, None
    if not host or not port:
        raise OSError(f"cluster must be an address such as 'tcp://10.0.0.1:8786', got {address!r}")
    found: list[socket.socket | OSError] = []

    def connect() -> None:
        try:
            found.append(socket.create_connection((host, port), timeout=ANSWER))
        except OSError as error:
            found.append(error)

    thread = Thread(target=connect, daemon=True)  # the search for a name has no limit of its own
    thread.start()
    thread.join(ANSWER)
    connection = found[0] if found else TimeoutError(f"it took longer than {ANSWER} seconds")
    if isinstance(connection, socket.socket):
        with connection:
            connection.settimeout(GREETING)
            try:
                if place.scheme == "tls" or connection.recv(1):
                    return
                connection = ConnectionError("it ended the connection")
            except OSError as error:
                connection = error
    raise OSError(f"cluster must be the address of a Dask scheduler, none answers at {address!r}: {connection}")


@contextmanager
def client_of(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address, which must have a worker.

    Raises
    ------
    ImportError
        If dask is not installed.
    OSError
        If the scheduler does not answer or has no workers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("a cluster needs Dask, which the extra brings: pip install 'corrnoise[cluster]'") from error
    require_scheduler(address)
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OSError(f"cluster must be the address of a Dask scheduler, none answers at {address!r}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except OSError as error:
            raise OSError(f"cluster must have workers, the scheduler at {address!r} has none") from error
        yield client
