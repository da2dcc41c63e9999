"""A network in containers: the compose file, and the network's file for its coordinator.

`python -m client.containers` writes those of this project anew: docker-compose.yml and docker/network.yaml.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

from client.demo import demo_network
from service.errors import SettingError
from service.wire.roles import ROLES, Role

HEAD_BEGINS = "# Written by `delbo compose`"
NETWORK_FILE = "network.yaml"
COMPOSE_FILE = "docker-compose.yml"

_PORT = 8001
_DASHBOARD_PORT = 8080
_ASKS_ITSELF = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{_DASHBOARD_PORT}/livez', timeout=4)"
_SOURCE = Path(__file__).parent.parent
_DOCKERFILE = Path("docker") / "Dockerfile"
_AFTER_TOKENS = "depends_on: {tokens: {condition: service_completed_successfully}}"
_AGENT_MEMORY, _COORDINATOR_MEMORY = "512m", "1g"


@dataclass(frozen=True)
class Containers:
    """What there is to decide about a network in containers."""

    folder: Path
    agents: int = 4
    topology: str = "ring"
    seed: int = 0
    name: str = "delbo"
    image: str | None = None
    secrets: Path | None = None
    publish: int | None = None
    network: Path = Path(NETWORK_FILE)

    @property
    def names(self) -> list[str]:
        """The agents, which are services too."""
        return [f"agent-{number}" for number in range(1, self.agents + 1)]

    def files(self) -> dict[Path, str]:
        """Both files, by where they go."""
        contents = {self.network: self.network_file(), Path(COMPOSE_FILE): self.compose_file()}
        return {self.folder / path: text for path, text in contents.items()}

    def network_file(self) -> str:
        """The demo's network, with agents that answer by the names of their services; to look at and to change."""
        agents = [{"name": name, "url": f"http://{name}:{_PORT}"} for name in self.names]
        document = demo_network(self.name, agents, self.topology, self.seed)
        head = f"{HEAD_BEGINS}: the network that the coordinator of {COMPOSE_FILE} runs. See docs/network.md.\n"
        return head + yaml.safe_dump(document, sort_keys=False)

    def compose_file(self) -> str:
        """The compose file, with what needs saying beside it."""
        agents = [self._agent(number, name) for number, name in enumerate(self.names)]
        services = [part for part in (self._token_maker(), *agents, self._coordinator(), self._dashboard()) if part]
        services[0] = f"services:\n{services[0]}"
        return "\n".join([self._head(), self._shared(), *services, self._volumes(), self._networks()])

    def _head(self) -> str:
        published = (
            f"127.0.0.1:{self.publish} and those after it are the agents, for this machine only."
            if self.publish is not None
            else "Nothing else is open to the world outside: the agents have a network of their own."
        )
        return f"""{HEAD_BEGINS}, and yours to change: {self.agents} agents on a {self.topology}, and a
# coordinator that streams what simulated robots see to them. docs/deploy.md tells more.
#
#   http://127.0.0.1:{_DASHBOARD_PORT}     the dashboard, for this machine only (DELBO_DASHBOARD_PORT: another port)
#   docker compose up         (or podman-compose up)
#   docker compose down -v    end it, and forget what the agents know
#
# {published}
name: {_quoted(self.name)}
"""

    def _shared(self) -> str:
        return f"""x-delbo: &delbo
  image: {_quoted(self.image or f"delbo:{version('delbo')}")}
{self._no_pull()}  read_only: true
  tmpfs: [/tmp]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  pids_limit: 200
  mem_limit: {_AGENT_MEMORY}
  networks: [inside]

x-agent: &agent
  <<: *delbo
  command: [agent]
  restart: unless-stopped # so the order in which they start does not matter
{self._after_tokens("  ")}{self._agent_networks()}"""

    def _after_tokens(self, indent: str) -> str:
        """Spares a restart or two where it is heeded; nothing hangs on it."""
        return "" if self.secrets is not None else f"{indent}{_AFTER_TOKENS}\n"

    def _build(self) -> str:
        """For one service: engines that build for all of them at once make the same image twice, and fail."""
        if self.image is not None or not (_SOURCE / _DOCKERFILE).is_file():
            return ""
        context = os.path.relpath(_SOURCE, self.folder.resolve())
        build = f"    build: {{context: {_path(context)}, dockerfile: {_DOCKERFILE.as_posix()}}}\n"
        return f"{build}    pull_policy: missing\n"

    def _no_pull(self) -> str:
        """For all the others: what is built here is nowhere else."""
        return "  pull_policy: never\n" if self._build() else ""

    def _agent_networks(self) -> str:
        return "" if self.publish is None else "  networks: [inside, outside]\n"

    def _token_maker(self) -> str:
        if self.secrets is not None:
            return ""
        return f"""  # Makes tokens, once; everybody else finds them as files. Who asks an agent for anything needs one.
  tokens:
    <<: *delbo
{self._build()}    command: [tokens, /run/secrets]
    restart: on-failure
    healthcheck: {{disable: true}}
    volumes: ["tokens:/run/secrets"]
"""

    def _agent(self, number: int, name: str) -> str:
        build = self._build() if self.secrets is not None and number == 0 else ""
        port = "" if self.publish is None else f'    ports: ["127.0.0.1:{self.publish + number}:{_PORT}"]\n'
        return f"""  {name}:
    <<: *agent
{build}    environment: {{DELBO_NAME: {name}, DELBO_TOKENS: /run/secrets}}
{port}{self._mounts(f"{name}:/data")}"""

    def _coordinator(self) -> str:
        return f"""  # Configures the agents, streams, measures every agent's map, and ends; they go on without it.
  coordinator:
    <<: *delbo
    command: [run, /etc/delbo/{NETWORK_FILE}, --keep]
    restart: on-failure
    mem_limit: {_COORDINATOR_MEMORY}
    healthcheck: {{disable: true}}
{self._after_tokens("    ")}    environment: {{DELBO_TOKENS: /run/secrets}}
{self._mounts(f"./{self.network.as_posix()}:/etc/delbo/{NETWORK_FILE}:ro")}"""

    def _dashboard(self) -> str:
        mounts = self._mounts(f"./{self.network.as_posix()}:/etc/delbo/{NETWORK_FILE}:ro", roles=("ingest", "read"))
        return f"""  # A web page that shows the agents, to look at only: it asks for no token. Without --read-only
  # whoever gets at its port on this machine can pause agents, and post to them.
  dashboard:
    <<: *delbo
    command: [dashboard, /etc/delbo/{NETWORK_FILE}, --host, 0.0.0.0, --insecure, --read-only]
    restart: unless-stopped
    healthcheck: {{test: [CMD, /opt/delbo/bin/python, -c, "{_ASKS_ITSELF}"]}}
{self._after_tokens("    ")}    environment: {{DELBO_TOKENS: /run/secrets}}
    ports: ["127.0.0.1:${{DELBO_DASHBOARD_PORT:-{_DASHBOARD_PORT}}}:{_DASHBOARD_PORT}"]
    networks: [inside, outside]
{mounts}"""

    def _mounts(self, *mounts: str, roles: Sequence[Role] = ROLES) -> str:
        """Volumes, and the tokens: in one of them, or as secrets."""
        every = mounts if self.secrets is not None else (*mounts, "tokens:/run/secrets:ro")
        lines = "    volumes: [" + ", ".join(f'"{mount}"' for mount in every) + "]\n"
        return lines + ("" if self.secrets is None else f"    secrets: [{', '.join(roles)}]\n")

    def _volumes(self) -> str:
        names = [*(["tokens"] if self.secrets is None else []), *self.names]
        text = "volumes:\n" + "".join(f"  {name}:\n" for name in names)
        if self.secrets is None:
            return text
        where = os.path.relpath(self.secrets.resolve(), self.folder.resolve())
        files = "".join(f"  {role}: {{file: {_path(f'./{where}/{role}')}}}\n" for role in ROLES)
        return f"{text}\nsecrets: # made by `delbo tokens`\n{files}"

    def _networks(self) -> str:
        published = "the dashboard" if self.publish is None else "the dashboard and the agents"
        return f"""networks:
  inside:
    internal: true # no way out, and none in
  outside: # for the ports of {published}
"""


def _quoted(text: str) -> str:
    """As YAML takes it, whatever is in it."""
    return yaml.safe_dump(text, default_style='"', width=10_000).strip()


def _path(text: str) -> str:
    """A path, of which compose shall not take any part for a variable."""
    return _quoted(text.replace("$", "$$"))


def write_files(contents: dict[Path, str]) -> list[Path]:
    """Write each; their paths."""
    for path, text in contents.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as fault:
            raise SettingError(f"{path}: cannot be written: {fault.strerror}") from None
    return list(contents)


OURS = Containers(_SOURCE, network=Path("docker") / NETWORK_FILE)
"""The files of this project."""

if __name__ == "__main__":
    sys.stdout.write("".join(f"wrote {path}\n" for path in write_files(OURS.files())))
