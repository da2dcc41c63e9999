"""The dashboard as a process: listening, serving, and ending."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable, Collection, Generator

import uvicorn

from client.dashboard.app import dashboard_app
from client.dashboard.watching import Watching
from service.errors import SettingError

_GRACE_S = 3  # for requests that are being answered at the end
_KEEP_ALIVE_S = 30


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own: whoever runs it has theirs."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def listen(host: str, port: int, insecure: bool) -> socket.socket:
    """A listening socket; a port that is taken, or one that others reach and must not, is told in one sentence."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        if not insecure and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
            raise SettingError(
                f"on {host} other machines could reach this dashboard, and it asks nobody who they are: "
                "say --insecure to let everybody in, and --read-only to let them only look"
            )
        listener.listen()
    except SettingError:
        listener.close()
        raise
    except (OSError, UnicodeError) as fault:
        listener.close()
        reason = getattr(fault, "strerror", None) or fault
        raise SettingError(f"{host}:{port} cannot be listened on: {reason}; choose another with --port") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listener.getsockname()[:2]
    shown = "127.0.0.1" if ipaddress.ip_address(host).is_unspecified else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


async def serve(watching: Watching, listener: socket.socket, names: Collection[str], ready: Callable[[], None]) -> None:
    """Serve until cancelled; then end what is being answered, and the watching."""
    config = uvicorn.Config(
        dashboard_app(watching, names),
        loop="none",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        server_header=False,
        proxy_headers=False,
    )
    server = _Server(config)
    async with watching.running():
        serving = asyncio.ensure_future(server.serve([listener]))
        ready()
        try:
            await asyncio.shield(serving)
        finally:
            watching.stop()
            server.should_exit = True
            await serving
