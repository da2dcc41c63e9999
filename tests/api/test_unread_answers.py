"""Clients that ask and do not read: what waits for them in memory goes after a while, and with it the connection."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.api import patient_protocol
from service.api.patient_protocol import PatientProtocol


class FullTransport(asyncio.Transport):
    """A connection whose client takes so much of what waits each time that somebody looks."""

    def __init__(self, takes: int) -> None:
        super().__init__()
        self.waiting, self.takes = 1000, takes
        self.looks = 0
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        self.waiting = max(self.waiting - self.takes, 0)
        return self.waiting

    def abort(self) -> None:
        self.aborted.set()

    def is_closing(self) -> bool:
        return self.aborted.is_set()

    def close(self) -> None:
        """uvicorn's way, which waits for what is unread."""


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that is never asked."""


def protocol_on(transport: FullTransport, monkeypatch: pytest.MonkeyPatch) -> PatientProtocol:
    monkeypatch.setattr(patient_protocol, "_PATIENCE_S", 0.001)
    config = uvicorn.Config(nothing, loop="none", lifespan="off", log_config=None)
    config.load()
    protocol = PatientProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(transport)
    return protocol


@pytest.mark.asyncio
async def test_the_connection_of_one_who_reads_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = FullTransport(takes=0)
    protocol = protocol_on(transport, monkeypatch)
    protocol.pause_writing()
    assert await asyncio.wait_for(transport.aborted.wait(), 20)
    protocol.connection_lost(None)


@pytest.mark.asyncio
async def test_one_who_reads_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a hundredth each time, and only when it stops taking is it cut off."""
    transport = FullTransport(takes=10)
    protocol = protocol_on(transport, monkeypatch)
    protocol.pause_writing()
    await asyncio.wait_for(transport.aborted.wait(), 20)
    assert transport.looks == 101  # a hundred times there was less
    protocol.connection_lost(None)


@pytest.mark.parametrize("event", ["resume_writing", "connection_lost"])
@pytest.mark.asyncio
async def test_one_who_has_read_all_or_has_gone_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    transport = FullTransport(takes=0)
    protocol = protocol_on(transport, monkeypatch)
    protocol.pause_writing()
    check = protocol._check
    assert check is not None
    if event == "resume_writing":
        protocol.resume_writing()
    else:
        protocol.connection_lost(None)
    assert check.cancelled()
    assert protocol._check is None
    assert not transport.aborted.is_set()
