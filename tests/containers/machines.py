"""Machines for tests: network namespaces that are joined by a bridge, each with an address of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from tests.processes import PATIENCE_S, ROOT


class Machine:
    """One namespace, and what runs in it."""

    def __init__(self, number: int, mark: str, subnet: str) -> None:
        self.address = f"{subnet}.{number}"
        self.namespace, self.link = f"delbo-{mark}-{number}", f"d{mark}{number}"
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, log: Path, *command: object) -> subprocess.Popen[bytes]:
        """Start a program on this machine; it is ended with the machine."""
        with log.open("ab") as file:
            process = subprocess.Popen(self._inside(*command), cwd=ROOT, stdout=file, stderr=file)
        self._running.append(process)
        return process

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Run a program on this machine to its end."""
        inside = self._inside(*command)
        return subprocess.run(inside, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def plug(self, state: str) -> None:
        """Pull the cable (`down`), or put it back (`up`)."""
        _ip("link", "set", self.link, state)

    def close(self) -> None:
        """End everything on it."""
        for process in self._running:
            process.kill()
            process.wait()

    def _inside(self, *command: object) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *map(str, command)]


def typed(*arguments: object) -> list[object]:
    """The command as it is typed on a machine where the project is installed."""
    return [sys.executable, "-m", "client", *arguments]


def why_not() -> str | None:
    """Why there can be no machines here; None if there can."""
    if shutil.which("ip") is None:
        return "there is no ip command (sudo apt-get install iproute2)"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    probe = f"delbo-probe-{token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    _ip("netns", "del", probe)
    return None


@contextmanager
def machines(*numbers: int) -> Iterator[list[Machine]]:
    """Machines that reach one another and nothing else; this one is at number 1."""
    mark = token_hex(2)
    subnet = f"10.213.{int(mark[:2], 16)}"  # one of many, for two runs at once; it leads nowhere but to the namespaces
    bridge, made = f"dbr{mark}", [Machine(number, mark, subnet) for number in numbers]
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{subnet}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for machine in made:
            _ip("netns", "add", machine.namespace)
            _ip("link", "add", machine.link, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
            _ip("link", "set", machine.link, "master", bridge, "up")
            _ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            _ip("-n", machine.namespace, "link", "set", "eth0", "up")
            _ip("-n", machine.namespace, "link", "set", "lo", "up")
        yield made
    finally:
        for machine in made:
            machine.close()
            _ip("netns", "del", machine.namespace, check=False)
        _ip("link", "del", bridge, check=False)


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"ip {' '.join(arguments)}: {done.stderr}")
