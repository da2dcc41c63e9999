"""The health check of a container: says yes to an agent that is ready, and no to everything else."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from service import health
from tests.processes import AgentProcess, free_port


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], int]:
    """Its answer for an agent that has told this address."""
    monkeypatch.setenv("DELBO_DATA_DIR", str(tmp_path))

    def run(url: str) -> int:
        (tmp_path / "address.json").write_text(json.dumps({"url": url}))
        return health.main()

    return run


class _Unready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()
        self.wfile.write(b'{"ready":false}')

    def log_message(self, *_: object) -> None:
        """To nobody."""


@pytest.fixture
def unready() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Unready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_agent_that_is_ready_is_well_wherever_it_listens(
    shared_agent: AgentProcess, check: Callable[[str], int], host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(f"http://{host}:{shared_agent.port}") == 0
    assert '"ready":true' in capsys.readouterr().out


def test_it_reads_what_an_agent_itself_has_told(shared_agent: AgentProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELBO_DATA_DIR", str(shared_agent.folder))
    assert health.main() == 0


def test_an_agent_that_is_not_ready_is_not_well_and_says_why(
    unready: str, check: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(unready) == 1
    assert '"ready":false' in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"url": 7}', '{"url": "http://127.0.0.1:none"}'])
def test_without_a_proper_address_nobody_is_well(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELBO_DATA_DIR", str(tmp_path))
    if content is not None:
        (tmp_path / "address.json").write_text(content)
    assert health.main() == 1


def test_silence_and_noise_are_not_well(check: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_DEADLINE_S", 0.1)
    assert check(f"http://127.0.0.1:{free_port()}") == 1
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert check(url) == 1

        def make_noise() -> None:
            for _ in range(2):  # the check before is still in the queue
                connection, _ = silent.accept()
                connection.sendall(b"what?\r\n\r\n")
                connection.close()

        monkeypatch.setattr(health, "_DEADLINE_S", 60.0)
        noise = threading.Thread(target=make_noise)
        noise.start()
        assert check(url) == 1
        noise.join()
