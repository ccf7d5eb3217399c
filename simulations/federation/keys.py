"""Keys of clients: Ed25519, where the library ``cryptography`` is installed; without it a client has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corrnoise.simulations.run.owned import read_bytes
from corrnoise.support.extras import extra_module
from corrnoise.support.files import write_whole

_KEY_FILE = "key"
_KEY_EXTRA = "keys"


def _library() -> Any:
    return extra_module("cryptography.hazmat.primitives.asymmetric.ed25519", _KEY_EXTRA)


def make(folder: Path) -> str | None:
    """Write a new secret key to a folder; returns the public key in hexadecimal digits, None without the library."""
    try:
        secret = _library().Ed25519PrivateKey.generate()
    except ImportError:
        return None
    write_whole(folder / _KEY_FILE, secret.private_bytes_raw(), secret=True)
    return str(secret.public_key().public_bytes_raw().hex())


def sign(folder: Path, statement: bytes) -> str | None:
    """The signature of a statement in hexadecimal digits; None where the folder has no key."""
    if not (folder / _KEY_FILE).exists():
        return None
    secret = _library().Ed25519PrivateKey.from_private_bytes(read_bytes(folder / _KEY_FILE))
    return str(secret.sign(statement).hex())


def signed(public: str, statement: bytes, signature: str | None) -> bool:
    """Whether the signature of a statement was made with the secret key that belongs to a public one."""
    try:
        _library().Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
            bytes.fromhex(signature or ""), statement
        )
    except ImportError:
        raise
    except Exception:  # of another type for each flaw: digits, length, signature
        return False
    return True
