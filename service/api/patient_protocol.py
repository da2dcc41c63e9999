"""uvicorn's connection, which gives up a client that does not read what it has asked for."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_PATIENCE_S = 60.0


class PatientProtocol(HttpToolsProtocol):
    """An answer waits in memory until its client takes it: for so long, if it takes none of it, and no longer.

    Closing would wait for the client to read the rest; so the connection is cut.
    """

    _check: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """There is more to send than the network takes at once."""
        super().pause_writing()
        self._wait_for_less(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The client reads."""
        self._no_longer_wait()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._no_longer_wait()
        super().connection_lost(exc)

    def _wait_for_less(self, unread: int) -> None:
        self._check = self.loop.call_later(_PATIENCE_S, self._cut_unless_less, unread)

    def _cut_unless_less(self, before: int) -> None:
        transport: Any = self.transport
        unread = transport.get_write_buffer_size()
        if unread >= before:
            transport.abort()
        else:
            self._wait_for_less(unread)

    def _no_longer_wait(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None
