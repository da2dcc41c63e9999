"""Agents as local processes: started in their folders, found again by the address that each writes there, ended.

Nothing is remembered elsewhere. Whoever started an agent may be gone: what counts is the file beside its data, and
whether who answers at that address is the same agent.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from client.agent_client import AgentClient
from client.concurrently import all_of
from client.retries import NO_PATIENCE, Patience
from service.errors import DelboError, SettingError
from service.wire.address import Address, read_address

_POLL_S = 0.05
_ASK_S = 3.0  # for an agent to say who it is
_START_S = 60.0
_STOP_S = 15.0  # until a signal that cannot be ignored
_LOG_LINES = 5


@dataclass
class Cluster:
    """The local agents of one network, each with its data in a folder below this one."""

    folder: Path
    names: Sequence[str]
    patience: Patience = field(default_factory=Patience)
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

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
        """End those that run; their names. What they know stays in their folders."""
        ended = await all_of(self._down(name) for name in self.names)
        return [name for name, was_running in zip(self.names, ended, strict=True) if was_running]

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
        self._start(name)
        give_up_at = self.patience.clock() + _START_S
        while self.patience.clock() < give_up_at:
            await self.patience.sleep(_POLL_S)
            # It may be another process that was started just before, and has the folder: then that is the agent.
            child = self._children[name]
            ended, told = child.poll() is not None, read_address(self.data_dir(name))
            if not ended and (told is None or told.pid != child.pid):
                continue
            address = await self._running(name)
            if address is not None:
                return address.url
            if ended and not self._is_alive(name):
                raise SettingError(f"{name} did not start: {self._last_words(name)}")
        raise SettingError(f"{name} did not start within {_START_S:g} s; see {self.log(name)}")

    def _start(self, name: str) -> None:
        """A process in a session of its own, so that it lives on when this one is interrupted or killed."""
        data_dir = self.data_dir(name)
        port = _port_to_take(read_address(data_dir))
        options = ["--name", name, "--data-dir", str(data_dir.resolve()), "--port", str(port)]
        command = [sys.executable, "-P", "-m", "service", *options]  # -P: no module of the user's in its way
        with self.log(name).open("ab") as log:
            self._children[name] = subprocess.Popen(  # noqa: S603 - this very interpreter
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def _running(self, name: str) -> Address | None:
        """The agent of a folder, if it answers as itself."""
        address = read_address(self.data_dir(name))
        if address is None:
            return None
        try:
            async with AgentClient(address.url, NO_PATIENCE, timeout_s=_ASK_S) as agent:
                status = await agent.status()
        except DelboError:
            return None
        return address if (status.agent, status.incarnation) == (name, address.incarnation) else None

    def _is_alive(self, name: str) -> bool:
        """Whether a process has an agent's folder, be it that it does not answer."""
        address = read_address(self.data_dir(name))
        return address is not None and self._is_agent(address.pid, name)

    async def _down(self, name: str) -> bool:
        address = read_address(self.data_dir(name))
        if address is None or not (self._is_agent(address.pid, name) or await self._running(name) is not None):
            return False
        for number, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, _STOP_S)):
            with suppress(ProcessLookupError):
                os.kill(address.pid, number)
            if await self._wait_for_end(name, address.pid, patience_s):
                return True
        raise SettingError(f"{name}, process {address.pid}, does not end")

    async def _wait_for_end(self, name: str, pid: int, patience_s: float) -> bool:
        give_up_at = self.patience.clock() + patience_s
        while self.patience.clock() < give_up_at:
            child = self._children.get(name)
            if child is not None and child.pid == pid:
                if child.poll() is not None:
                    return True
            elif not self._is_agent(pid, name):
                return True
            await self.patience.sleep(_POLL_S)
        return False

    def _is_agent(self, pid: int, name: str) -> bool:
        """Whether that process is an agent with this folder; numbers of processes are used again."""
        return str(self.data_dir(name).resolve()) in _command_of(pid)

    def _last_words(self, name: str) -> str:
        try:
            lines = self.log(name).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return " / ".join(lines[-_LOG_LINES:]) or "it said nothing"


def folder_name(name: str) -> str:
    """An agent's name as that of a folder: any printable text can be a name, but not any can be a folder."""
    quoted = quote(name, safe=" ")
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted


def _port_to_take(last: Address | None) -> int:
    """The port it had, so that its neighbors find it where they look; another one if that is taken."""
    port = None if last is None else urlsplit(last.url).port
    if port is None:
        return 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _command_of(pid: int) -> str:
    """The command line of a process; nothing if there is no such process, or if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    except OSError:
        return ""
    answer = subprocess.run(  # noqa: S603 - a number, and nothing of the user's
        ["ps", "-o", "command=", "-p", str(pid)],  # noqa: S607 - where there is no /proc
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout
