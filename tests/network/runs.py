"""`delbo run` as a process that can be killed, and a gate in front of an agent that holds a request back."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.network.proxy import DelayingProxy
from tests.processes import PATIENCE_S, ROOT


def processes_of(folder: Path) -> list[int]:
    """Every process with that folder, or one below it, on its command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


class Run:
    """A `delbo` command in a process of its own; its output goes to files, so that no pipe ever fills."""

    def __init__(self, folder: Path, *arguments: object, cwd: Path = ROOT) -> None:
        self._files = [(folder / name).open("w+b") for name in ("stdout.txt", "stderr.txt")]
        command = [sys.executable, "-m", "client", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=cwd, stdout=self._files[0], stderr=self._files[1], start_new_session=True
        )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for file in self._files:
            file.close()

    def kill(self) -> None:
        """kill -9, also of all that it has not set apart: what the end of a terminal's session does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)

    def text(self, number: int = 0) -> str:
        """What it has printed; 1: to standard error."""
        self._files[number].seek(0)
        return self._files[number].read().decode()

    def finish(self) -> Any:
        """Wait for its end; the object that it printed, with --json."""
        code = self.process.wait(PATIENCE_S)
        assert code == 0, self.text(1)
        return json.loads(self.text())


class Gate(DelayingProxy):
    """Lets everything pass but requests that begin in a certain way: it holds them until somebody gives up."""

    def __init__(self) -> None:
        super().__init__(seed=0, longest_s=0.0)
        self._held: bytes | None = None
        self._is_holding = threading.Event()

    def hold(self, beginning: str) -> None:
        """From now on, hold requests that begin so."""
        self._is_holding.clear()
        self._held = beginning.encode()

    def wait_until_holding(self) -> None:
        """Until such a request has come, and hold no others after it."""
        assert self._is_holding.wait(PATIENCE_S), f"{self._held!r} did not come"
        self._held = None

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                if self._held is not None and data.startswith(self._held):
                    self._is_holding.set()
                    await source.read()  # until the sender is gone
                    break
                target.write(data)
                await target.drain()
        except OSError:
            pass
        target.close()
