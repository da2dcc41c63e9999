"""Agents as local processes: started in their folders, found again by the address that each writes there, ended.

Nothing is remembered elsewhere. Whoever started an agent may be gone: what counts is the file beside its data, and
whether who answers at that address is the same agent.
"""

import hashlib
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, urlsplit

from client import processes
from client.agent_client import AgentClient
from client.concurrently import all_of
from client.retries import NO_PATIENCE, Patience
from client.tokens import TokenFolder
from service.errors import AgentRefusedError, DelboError, SettingError
from service.wire.address import Address, read_address
from service.wire.problems import NOT_LET_IN

_POLL_S = 0.05
_ASK_S = 10.0  # for an agent to say who it is
_START_S = 60.0
_ANY_PORT = 0
_LOG_LINES = 5
_PORT_TAKEN = "cannot be listened on"  # what an agent says of it
_PORTS = range(20_000, 32_000)  # below those that the system gives to outgoing connections
_PORTS_TRIED = 20
_LONGEST_FOLDER = 200  # characters; file systems take 255


@dataclass
class Cluster:
    """The local agents of one network, each with its data in a folder below this one."""

    folder: Path
    names: Sequence[str]
    patience: Patience = field(default_factory=Patience)
    tokens: TokenFolder | None = None

    async def up(self) -> dict[str, str]:
        """Start the agents that do not run; the addresses of all, by name, once they answer."""
        if self.names:
            self._make_folder()
        urls = await all_of(self._up(name) for name in self.names)
        return dict(zip(self.names, urls, strict=True))

    async def running(self) -> dict[str, str]:
        """The addresses of those that run."""
        found = await all_of(self._running(name) for name in self.names)
        return {name: address.url for name, address in zip(self.names, found, strict=True) if address is not None}

    async def down(self) -> list[str]:
        """End those that run, or are about to; their names. What they know stays in their folders."""
        commands = processes.commands()
        ended = await all_of(self._down(name, commands) for name in self.names)
        processes.reap()
        return [name for name, was_running in zip(self.names, ended, strict=True) if was_running]

    async def down_all(self) -> list[str]:
        """End whatever runs below the folder, also agents that are no longer in the network's file; their names."""
        inside = f" --data-dir {self.folder.resolve()}/"
        named = re.compile(r" -m service --name=(.*) --data-dir ")
        strays = {
            match[1]
            for command in processes.commands().values()
            if inside in command and (match := named.search(command)) is not None
        }
        return await replace(self, names=list(dict.fromkeys([*self.names, *sorted(strays)]))).down()

    def forget(self) -> None:
        """Remove what agents that do not run have stored."""
        for name in self.names:
            shutil.rmtree(self.data_dir(name), ignore_errors=True)
            self.log(name).unlink(missing_ok=True)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise SettingError(f"{self.folder}: cannot be made a folder: {fault.strerror}") from None

    def data_dir(self, name: str) -> Path:
        """Where an agent keeps its file."""
        return self.folder / folder_name(name)

    def log(self, name: str) -> Path:
        """What an agent writes to its output."""
        return self.folder / f"{folder_name(name)}.log"

    async def _up(self, name: str) -> str:
        address = await self._running(name)
        if address is not None:
            return address.url
        port = _port_to_take(read_address(self.data_dir(name)))
        child = self._start(name, port)
        give_up_at = self.patience.clock() + _START_S
        while self.patience.clock() < give_up_at:
            await self.patience.sleep(_POLL_S)
            ended, told = child.poll() is not None, read_address(self.data_dir(name))
            if not ended and (told is None or told.pid != child.pid):
                continue
            address = await self._running(name)
            if address is not None:
                return address.url
            # It may be another process that was started just before, and has the folder or the port: that is the agent.
            if not ended or self._processes(name, processes.commands()):
                continue
            last_words = self._last_words(name)
            if port == _ANY_PORT or _PORT_TAKEN not in last_words:
                raise SettingError(f"{name} did not start: {last_words}")
            port = _ANY_PORT  # the other one has been taken just then
            child = self._start(name, port)
        raise SettingError(f"{name} did not start within {_START_S:g} s; see {self.log(name)}")

    def _start(self, name: str, port: int) -> subprocess.Popen[bytes]:
        options = [f"--name={name}", *self._data_option(name), "--port", str(port), "--host", "127.0.0.1"]
        options += [] if self.tokens is None else ["--tokens", str(self.tokens.folder.resolve())]
        # -P: no module of the user's in its way
        return processes.start(name, [sys.executable, "-P", "-m", "service", *options], self.log(name))

    def _data_option(self, name: str) -> list[str]:
        return ["--data-dir", str(self.data_dir(name).resolve())]

    async def _running(self, name: str) -> Address | None:
        """The agent of a folder, if it answers as itself."""
        address = read_address(self.data_dir(name))
        if address is None:
            return None
        try:
            async with AgentClient(address.url, NO_PATIENCE, timeout_s=_ASK_S, tokens=self.tokens) as agent:
                status = await agent.status()
        except AgentRefusedError as refused:
            if refused.slug in NOT_LET_IN:
                raise
            return None
        except DelboError:
            return None
        return address if (status.agent, status.incarnation) == (name, address.incarnation) else None

    def _processes(self, name: str, commands: dict[int, str]) -> list[int]:
        """The processes that have an agent's folder, or are about to; numbers of processes are used again by others."""
        mine = " ".join(["", "-m", "service", f"--name={name}", *self._data_option(name), "--port", ""])
        return [pid for pid, command in commands.items() if mine in command]

    async def _down(self, name: str, commands: dict[int, str]) -> bool:
        pids = self._processes(name, commands)
        with suppress(AgentRefusedError):
            address = await self._running(name)
            if address is not None and address.pid in commands:  # somebody may have started it by hand
                pids = list({*pids, address.pid})
        await all_of(processes.end(name, pid, commands[pid], self.patience) for pid in pids)
        return bool(pids)

    def _last_words(self, name: str) -> str:
        try:
            lines = self.log(name).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return " / ".join(lines[-_LOG_LINES:]) or "it said nothing"


def folder_name(name: str) -> str:
    """An agent's name as that of a folder: any printable text can be a name, but not any can be a folder.

    Without dots, so that no folder has the name of another one's log; of a very long name only the beginning.
    """
    quoted = quote(name, safe=" ").replace(".", "%2E")
    if len(quoted) <= _LONGEST_FOLDER:
        return quoted
    return f"{quoted[: _LONGEST_FOLDER // 2]}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _port_to_take(last: Address | None) -> int:
    """The port it had, so that its neighbors find it where they look; else one that nobody gets by chance."""
    try:
        port = None if last is None else urlsplit(last.url).port
    except ValueError:
        port = None
    candidates = [] if port is None else [port]
    candidates += random.sample(_PORTS, _PORTS_TRIED)
    return next((candidate for candidate in candidates if processes.is_free(candidate)), _ANY_PORT)
