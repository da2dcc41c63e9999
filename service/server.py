"""One agent as a process: startup, serving, shutdown."""

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Generator
from functools import partial
from pathlib import Path

import uvicorn

from service.agent.agent import Agent
from service.agent.http_client import HttpClient
from service.agent.tokens import Tokens
from service.api.access import Access
from service.api.app import Application
from service.api.parameters import ParametersEndpoint
from service.api.peer_protocol import PeerProtocol
from service.errors import SettingError
from service.memory import release_compiler_code
from service.settings import Settings
from service.wire.address import Address, write_address

_KEEP_ALIVE_S = 75  # longer than agents rest between rounds
_BACKLOG = 2048  # connections that wait to be accepted
_GRACE_S = 3  # for requests that are being answered when the agent stops

log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own: it would end the process by the signal, not with exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(settings: Settings) -> None:
    """Open the agent, serve until SIGTERM or SIGINT, close everything."""
    loop = asyncio.get_running_loop()
    tokens = None if settings.tokens is None else Tokens(settings.tokens)
    listener = _listen(settings.host, settings.port, only_loopback=tokens is None and not settings.insecure)
    peers = HttpClient((lambda: None) if tokens is None else lambda: tokens.of_peer)
    access = Access(tokens)
    try:
        agent = Agent(settings.name, settings.data_dir, peers, loop.time, settings.inbox_limit, settings.history_limit)
        config = uvicorn.Config(
            Application(agent, access, settings.body_limit),
            loop="none",
            http=partial(PeerProtocol, ParametersEndpoint(agent), access),  # type: ignore[arg-type]
            lifespan="off",
            ws="none",
            backlog=_BACKLOG,
            log_config=None,
            access_log=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            date_header=False,
            proxy_headers=False,
        )
        server = _Server(config)

        def stop() -> None:
            if not agent.stopping:
                log.info("stopping")
            agent.stop()
            server.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        release_compiler_code()
        gc.freeze()  # what was imported stays: no collection need look at it again
        gc.set_threshold(20_000, 20, 20)
        _tell_address(agent, settings.data_dir, listener)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.run())
            if tokens is not None:
                tasks.create_task(tokens.watch(agent.stopped))
            await server.serve([listener])
            stop()
        log.info("stopped")
    finally:
        peers.close()
        listener.close()


def _tell_address(agent: Agent, folder: Path, listener: socket.socket) -> None:
    """In the log, and in a file for whoever started the agent; without the file it works as well."""
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    _, incarnation = agent.store.identity
    try:
        write_address(folder, Address(agent.name, incarnation, os.getpid(), url))
    except OSError as fault:
        log.warning("the address could not be written beside the data: %s", fault)
    log.info("listening on %s", url)


def _listen(host: str, port: int, only_loopback: bool) -> socket.socket:
    """A listening socket; a port that is taken, or one that others reach and must not, is told in one sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        if only_loopback and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
            raise SettingError(
                f"on {host} other machines could reach this agent, and there are no tokens: make some with "
                "delbo tokens and name their folder with --tokens, or say --insecure to let everybody in"
            )
        listener.listen(_BACKLOG)  # now: until it listens, another process may bind the same port
    except SettingError:
        listener.close()
        raise
    except (OSError, UnicodeError) as fault:
        listener.close()
        raise SettingError(f"{host}:{port} cannot be listened on: {getattr(fault, 'strerror', fault)}") from None
    return listener
