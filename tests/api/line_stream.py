"""A client that streams lines and can stop anywhere: a plain socket."""

import http.client
import json
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from tests.processes import PATIENCE_S, AgentProcess

LINES = "application/x-ndjson"


class LineStream:
    """`POST /v1/observations` of lines in chunks; `acknowledged`: it accepts lines as the answer."""

    def __init__(self, agent: AgentProcess, acknowledged: bool = False, token: str = "", **mark: Any) -> None:
        self._socket = socket.create_connection(("127.0.0.1", agent.port), PATIENCE_S)
        self._answer = http.client.HTTPResponse(self._socket)
        more = f"accept: {LINES}\r\n" if acknowledged else ""
        more += f"authorization: Bearer {token}\r\n" if token else ""
        self._socket.sendall(
            f"POST /v1/observations?{urlencode(mark)} HTTP/1.1\r\nhost: agent\r\ncontent-type: {LINES}\r\n{more}"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )

    def __enter__(self) -> "LineStream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """One chunk; the body goes on."""
        self._socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self) -> None:
        """The body is complete."""
        self._socket.sendall(b"0\r\n\r\n")

    def close(self) -> None:
        """Break off, if it is not complete."""
        self._answer.close()
        self._socket.close()

    def read_head(self) -> int:
        """Wait for the answer's beginning: its status."""
        self._answer.begin()
        return self._answer.status

    def read_line(self) -> dict[str, Any]:
        """Wait for a line of the answer."""
        return dict(json.loads(self._answer.readline()))

    def read_document(self) -> dict[str, Any]:
        """Wait for the whole answer."""
        return dict(json.loads(self._answer.read()))


def lines_of(x: Iterable[Iterable[float]], y: Iterable[float]) -> bytes:
    """Observations, one a line."""
    rows = ({"x": list(map(float, point)), "y": float(target)} for point, target in zip(x, y, strict=True))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
