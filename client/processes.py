"""Processes of ours on this machine: started so that they live on, found again by their command lines, ended."""

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from client.retries import Patience
from service.errors import SettingError

_POLL_S = 0.05
_STOP_S = 15.0  # until a signal that cannot be ignored
_PROCESSES = Path("/proc")

# What was started from here, and may live on: nobody is to hear that it was forgotten.
_children: list[subprocess.Popen[bytes]] = []


def start(what: str, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that it lives on when this one is interrupted or killed.

    It is told of tokens by its options, or has none.
    """
    try:
        with log.open("ab") as file:
            child = subprocess.Popen(  # noqa: S603 - our own programs
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                env={key: value for key, value in os.environ.items() if key != "DELBO_TOKENS"},
            )
    except OSError as fault:
        raise SettingError(f"{what} cannot be started: {fault.filename}: {fault.strerror}") from None
    _children.append(child)
    return child


async def end(what: str, pid: int, command: str, patience: Patience) -> None:
    """End the process that has this number and this command line: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
        except OSError as fault:
            raise SettingError(f"{what}, process {pid}, cannot be ended: {fault.strerror}") from None
        if await _wait_for_end(pid, command, patience):
            return
    raise SettingError(f"{what}, process {pid}, does not end")


async def _wait_for_end(pid: int, command: str, patience: Patience) -> bool:
    give_up_at = patience.clock() + _STOP_S
    while patience.clock() < give_up_at:
        reap()
        if _command_of(pid) != command:
            return True
        await patience.sleep(_POLL_S)
    return False


def reap() -> None:
    """Ask for the end of those that have ended, whoever ended them: else their numbers would stay in use."""
    for child in _children:
        if child.poll() is None and not _command_of(child.pid):
            child.wait()  # a process that has no command line any more is about to end
    _children[:] = [child for child in _children if child.returncode is None]


def is_free(port: int) -> bool:
    """Whether a port of this machine is nobody's."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def commands() -> dict[int, str]:
    """The command lines of all processes, by their numbers."""
    if not _PROCESSES.exists():
        answer = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=False)  # noqa: S607
        pairs = (line.split(maxsplit=1) for line in answer.stdout.splitlines())
        return {int(pid): command for pid, command in (pair for pair in pairs if len(pair) == 2)}
    numbers = (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdecimal())
    return {pid: command for pid in numbers if (command := _command_of(pid))}


def _command_of(pid: int) -> str:
    """The command line of a process; nothing if there is no such process, or if it has ended."""
    if not _PROCESSES.exists():
        return commands().get(pid, "")
    try:
        return (_PROCESSES / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
