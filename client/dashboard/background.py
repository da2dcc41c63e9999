"""A dashboard that goes on by itself beside the agents of a network, until the network is ended."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from client import processes
from client.retries import Patience
from service.errors import SettingError

_USUAL_PORT = 8080
_PORTS_TRIED = 20  # behind the usual one
_POLL_S = 0.1
_START_S = 30.0
_ASK_S = 2.0


@asynccontextmanager
async def kept_dashboard(network: Path, runs: Path) -> AsyncIterator[str]:
    """The address of a dashboard that is started here, and stays; ended only if what it was started for fails."""
    await end_dashboards(network)
    try:
        yield await _start(network, runs, Patience())
    except BaseException:
        await asyncio.shield(end_dashboards(network))
        raise


async def end_dashboards(network: Path) -> bool:
    """End what `kept_dashboard` has started for this file; whether there was one. Others are their users' own."""
    mine = f" {' '.join(_command(network))} "
    found = {pid: command for pid, command in processes.commands().items() if mine in command}
    for pid, command in found.items():
        await processes.end("the dashboard", pid, command, Patience())
    processes.reap()
    return bool(found)


def _command(network: Path) -> list[str]:
    return ["-P", "-m", "client", "dashboard", str(network.resolve())]


async def _start(network: Path, runs: Path, patience: Patience) -> str:
    ports = range(_USUAL_PORT, _USUAL_PORT + _PORTS_TRIED)
    port = next((port for port in ports if processes.is_free(port)), None)
    if port is None:
        raise SettingError(f"ports {ports[0]} to {ports[-1]} are all in use: start delbo dashboard with --port")
    log = network.parent / "dashboard.log"
    command = [sys.executable, *_command(network), "--runs", str(runs), "--port", str(port)]
    child = processes.start("the dashboard", command, log)
    url = f"http://127.0.0.1:{port}"
    give_up_at = patience.clock() + _START_S
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=_ASK_S) as http:
        while patience.clock() < give_up_at and child.poll() is None:
            try:
                if (await http.get(f"{url}/livez")).is_success and child.poll() is None:
                    return url
            except httpx2.TransportError:
                pass
            await patience.sleep(_POLL_S)
    raise SettingError(f"the dashboard did not start; see {log}")
