"""The file beside an agent's data that tells where it listens, for whoever started it."""

from contextlib import suppress
from pathlib import Path

import msgspec

_FILE = "address.json"


class Address(msgspec.Struct, frozen=True):
    """Where an agent listens, or last did; the incarnation tells it from another at the same place."""

    agent: str
    incarnation: int
    pid: int
    url: str


def write_address(folder: Path, address: Address) -> None:
    """Replace the file as a whole, so that no reader finds half of it; may raise OSError."""
    draft = folder / f"{_FILE}.{address.pid}"
    try:
        draft.write_bytes(msgspec.json.encode(address) + b"\n")
        draft.replace(folder / _FILE)
    finally:
        with suppress(OSError):
            draft.unlink()


def read_address(folder: Path) -> Address | None:
    """What the agent of this folder last told; None if there is nothing to be read."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=Address)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
