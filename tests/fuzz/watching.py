"""An agent whose event loop is watched, and which of the requests to it held the loop up."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.fuzz.watched_agent import GAPS, Gap
from tests.processes import ROOT, AgentProcess

LONGEST_GAP_S = 0.1

_TRIES = 3

_gap = msgspec.json.Decoder(Gap)


class WatchedAgent(AgentProcess):
    """A real agent in a process of its own, with a ticker on its loop."""

    def __init__(self, name: str, folder: Path, *options: object) -> None:
        super().__init__(name, folder, *options)
        self._file = folder.parent / f"{folder.name}.gaps"
        self._file.touch()

    def launch(self) -> None:
        """Start the process, and do not wait."""
        options = ["--name", self.name, "--port", self.port, "--data-dir", self.folder, *self.options]
        command = [sys.executable, "-m", "tests.fuzz.watched_agent", *map(str, options)]
        environment = {**os.environ, **self.environment, GAPS: str(self._file)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)

    def gaps(self) -> list[Gap]:
        """All gaps worth telling so far; those of answered requests are among them."""
        for _ in range(2):  # the loop runs again: the ticker has had its turn
            assert self.http.get("/livez").status_code == 200
        return [_gap.decode(line) for line in self._file.read_bytes().splitlines()]

    def resident_bytes(self) -> int:
        """The memory that the process holds now."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [one for one in status.splitlines() if one.startswith("VmRSS")]
        return 1024 * int(line.split()[1])

    def held_up_by(self, request: Callable[[], object]) -> float:
        """For how many seconds this request holds the loop up; what it does only now and then is another's doing."""
        longest = self._held_up_once(request)
        for _ in range(_TRIES if longest > LONGEST_GAP_S else 0):
            longest = min(longest, self._held_up_once(request))
        return longest

    def _held_up_once(self, request: Callable[[], object]) -> float:
        before = len(self.gaps())
        request()
        return max((gap.counted_s for gap in self.gaps()[before:]), default=0.0)
