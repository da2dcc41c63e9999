"""Real containers for tests: docker and its compose, or podman and podman-compose, whichever is there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.processes import ROOT

BASE = "python:3.13-slim"
IMAGE = f"delbo:{version('delbo')}"
HARDENED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")

_LONGEST_S = 1200.0  # what building takes on a slow machine, and more

# podman's own format of images has no health check.
_ENVIRONMENT = {**os.environ, "BUILDAH_FORMAT": "docker", "PODMAN_IGNORE_CGROUPSV1_WARNING": "1"}

# Inside an agent's container: GET an address with the first token of a role.
_ASK = """
import sys, urllib.request
role, path = sys.argv[1:]
token = open(f"/run/secrets/{role}").readline().strip()
request = urllib.request.Request(f"http://127.0.0.1:8001{path}", headers={"Authorization": f"Bearer {token}"})
sys.stdout.buffer.write(urllib.request.urlopen(request, timeout=30).read())
"""


@dataclass(frozen=True)
class Engine:
    """What runs containers: the command for one, and that for a compose file."""

    name: str
    compose: tuple[str, ...]

    def __call__(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the engine's command."""
        return run([self.name, *map(str, arguments)], check=check)

    def build(self) -> None:
        """The image, from this source."""
        self("build", "--tag", IMAGE, "--file", ROOT / "docker" / "Dockerfile", ROOT)

    def image_size(self, image: str) -> int:
        """Bytes."""
        return int(self("image", "inspect", image, "--format", "{{.Size}}").stdout)

    def image_config(self, image: str) -> dict[str, Any]:
        """What an image says of how it is run."""
        told = json.loads(self("image", "inspect", image).stdout)[0]
        return {"Healthcheck": told.get("Healthcheck"), **told["Config"]}  # podman has it outside


def run(
    command: Sequence[str], check: bool = True, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; one that must not fail tells what it said."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**_ENVIRONMENT, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"[-6000:])
    return done


def find_engine() -> Engine | None:
    """Docker if its daemon answers, else podman, with the podman-compose of this environment."""

    def works(*command: str) -> bool:
        return shutil.which(command[0]) is not None and run(command, check=False).returncode == 0

    if works("docker", "info") and works("docker", "compose", "version"):
        return Engine("docker", ("docker", "compose"))
    beside = Path(sys.executable).parent / "podman-compose"
    compose = str(beside) if beside.exists() else "podman-compose"
    return Engine("podman", (compose,)) if works("podman", "info") and works(compose, "version") else None


@dataclass(frozen=True)
class Project:
    """The containers of one compose file, or of several that are laid over one another."""

    engine: Engine
    name: str
    files: tuple[Path, ...]
    environment: dict[str, str]

    def compose(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of compose."""
        files = [text for file in self.files for text in ("-f", str(file))]
        return run([*self.engine.compose, "-p", self.name, *files, *arguments], check, self.environment)

    def up(self, *services: str) -> None:
        """Start these services and no others, as they are; without any, all."""
        self.compose("up", "-d", "--no-build", *(("--no-deps", *services) if services else ()))

    def container(self, service: str) -> str:
        """The name of a service's container, whoever made it up."""
        labels = [f"label=com.docker.compose.{what}" for what in (f"project={self.name}", f"service={service}")]
        filters = [text for label in labels for text in ("--filter", label)]
        names = self.engine("ps", "-a", *filters, "--format", "{{.Names}}").stdout.split()
        assert len(names) == 1, f"{service}: {names}"
        return names[0]

    def inspect(self, service: str) -> dict[str, Any]:
        """All that the engine knows of a container."""
        return dict(json.loads(self.engine("inspect", self.container(service)).stdout)[0])

    def ended_with(self, service: str) -> int | None:
        """The exit code of a service that has ended; None while it runs, or is about to be started again."""
        state = self.inspect(service)["State"]
        return int(state["ExitCode"]) if state["Status"] == "exited" else None

    def kill(self, service: str) -> None:
        """kill -9."""
        self.engine("kill", self.container(service))

    def start(self, service: str) -> None:
        """Start a container that has ended."""
        self.engine("start", self.container(service))

    def execute(self, service: str, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in a container."""
        return self.engine("exec", self.container(service), *command, check=check)

    def ask(self, service: str, path: str, role: str = "read") -> dict[str, Any] | None:
        """What an agent answers inside its container; None if it does not."""
        done = self.execute(service, "/opt/delbo/bin/python", "-c", _ASK, role, path, check=False)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else None

    def logs(self, service: str) -> str:
        """All that a container has written."""
        done = self.engine("logs", self.container(service))
        return done.stdout + done.stderr

    def down(self, *options: str) -> subprocess.CompletedProcess[str]:
        """End all of it, as far as that is possible."""
        return self.compose("down", *options, "-t", "5", check=False)
