"""`docker compose up`, for real: the network learns, loses an agent and gets it back, and forgets nothing."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from client.agent_client import AgentClient
from client.network.plan import load_plan
from client.retries import NO_PATIENCE
from client.tokens import TokenFolder
from service.errors import AgentRefusedError
from service.wire.configuration import ModelDocument
from tests.conftest import Delbo
from tests.containers.conftest import Projects
from tests.containers.engine import IMAGE, Project
from tests.processes import ROOT, free_port, until
from tests.test_documentation import blocks

pytestmark = pytest.mark.thorough  # `make test-containers` runs them

AGENTS = ["agent-1", "agent-2", "agent-3", "agent-4"]
STREAMED_S = 300  # a bound for a network that streams for a quarter of a minute


def together(text: str) -> dict[str, list[float]]:
    """Of every agent of the network: its observations, accuracy and balanced accuracy, as the table says."""
    found = re.findall(r"^.*(agent-\d) +together +([\d,]+) +([\d.]+)% +([\d.]+)%", text, re.MULTILINE)
    return {name: [float(word.replace(",", "")) for word in words] for name, *words in found}


def counts(project: Project, agent: str) -> dict[str, Any]:
    status = project.ask(agent, "/v1/status")
    return {} if status is None else dict(status["observations"])


def round_of(project: Project, agent: str) -> int:
    status = project.ask(agent, "/v1/status")
    return -1 if status is None else int(status["rounds_in_all"])


def test_the_network_learns_in_containers_and_an_agent_that_was_killed_goes_on_from_its_volume(
    projects: Projects,
) -> None:
    """Started in the worst order: first who needs everybody, last what everybody needs."""
    project = projects(ROOT / "docker-compose.yml")
    for service in ("coordinator", *reversed(AGENTS), "tokens"):
        project.up(service)
    until(lambda: counts(project, "agent-2").get("collected", 0) > 2_000, STREAMED_S)
    before = project.ask("agent-2", "/v1/status")
    project.kill("agent-2")
    assert counts(project, "agent-2") == {}
    project.start("agent-2")
    until(lambda: project.ended_with("coordinator") == 0, STREAMED_S)
    after = project.ask("agent-2", "/v1/status")
    assert before is not None
    assert after is not None
    assert after["incarnation"] == before["incarnation"]
    rows = [len(part) for part in load_plan(ROOT / "docker" / "network.yaml").parts]
    assert [counts(project, agent)["applied"] for agent in AGENTS] == rows
    readme = together(next(block for block in blocks(ROOT / "README.md", "") if "together" in block))
    reached = together(project.logs("coordinator"))
    assert list(reached) == AGENTS
    for agent in AGENTS:
        assert reached[agent] == pytest.approx(readme[agent], abs=0.05)  # the demo's own, in points

    # Nobody is needed, and nothing is forgotten.
    project.kill("agent-3")
    project.start("agent-3")
    reached_round = round_of(project, "agent-1")
    until(lambda: min(round_of(project, agent) for agent in AGENTS) > reached_round + 2)
    project.down()
    project.up()
    until(lambda: min(round_of(project, agent) for agent in AGENTS) > reached_round, STREAMED_S)
    assert [counts(project, agent)["applied"] for agent in AGENTS] == rows
    check_dashboard(f"http://127.0.0.1:{project.environment['DELBO_DASHBOARD_PORT']}", rows)


def check_dashboard(url: str, rows: list[int]) -> None:
    """From outside it shows all agents, in numbers and as maps, and lets nobody do anything."""

    def learned() -> dict[str, int]:
        try:
            state = httpx2.get(f"{url}/api/state", trust_env=False).json()
        except httpx2.TransportError:
            return {}
        return {agent["name"]: agent.get("observations") for agent in state["agents"] if agent["health"] == "ok"}

    until(lambda: learned() == dict(zip(AGENTS, rows, strict=True)))
    picture = httpx2.get(f"{url}/api/agents/1/picture", trust_env=False)
    assert picture.headers["content-type"] == "image/png"
    refused = httpx2.post(f"{url}/api/actions/pause", json={}, headers={"origin": url}, trust_env=False)
    assert refused.status_code == 403
    assert "reading only" in refused.json()["detail"]


def test_nothing_leads_into_the_network_or_out_of_it(projects: Projects) -> None:
    project = projects(ROOT / "docker-compose.yml")
    project.up("tokens", "agent-1")
    until(lambda: round_of(project, "agent-1") >= 0 or project.ask("agent-1", "/v1/livez"))
    routes = project.execute("agent-1", "cat", "/proc/net/route").stdout.splitlines()[1:]
    assert routes
    assert not [line for line in routes if line.split()[1] == "00000000"]  # no way to anywhere else
    inside = project.inspect("agent-1")
    assert not [port for ports in inside["NetworkSettings"]["Ports"].values() for port in ports or []]
    assert inside["HostConfig"]["PidsLimit"] == 200
    assert inside["HostConfig"]["Memory"] == 512 * 2**20
    assert inside["HostConfig"]["ReadonlyRootfs"]


def test_a_network_of_ones_own_data_learns_from_a_folder(projects: Projects, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "own-data", tmp_path / "own")
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 10, (4000, 2))
    y = np.hypot(*(x - 5).T) < 3
    lines = [f"{a:.4f},{b:.4f},{int(label)}" for (a, b), label in zip(x, y, strict=True)]
    (tmp_path / "own" / "observations.csv").write_text("\n".join(["x1,x2,y", *lines]) + "\n")
    project = projects(ROOT / "docker-compose.yml", ROOT / "docker" / "own-data.yml", DELBO_OWN=str(tmp_path / "own"))
    project.up()
    until(lambda: project.ended_with("coordinator") == 0, STREAMED_S)
    reached = together(project.logs("coordinator"))
    assert sum(observations for observations, *_ in reached.values()) == 3600
    assert min(accuracy for _, accuracy, _ in reached.values()) > 90


@pytest.mark.asyncio
async def test_agents_that_are_published_take_posts_from_this_machine_with_a_token(
    projects: Projects, delbo_here: Delbo, tmp_path: Path
) -> None:
    port, folder = free_port(), tmp_path / "line"
    options = ["--agents", 2, "--topology", "line", "--publish", port, "--secrets", folder / "secrets"]
    assert delbo_here("compose", *options, "--out", folder, "--image", IMAGE).returncode == 0
    project = projects(folder / "docker-compose.yml")
    project.up("agent-1", "agent-2")
    until(lambda: project.ask("agent-2", "/v1/readyz"))
    url = f"http://127.0.0.1:{port + 1}"
    model = json.loads(json.dumps(load_plan(folder / "network.yaml").spec.model_dump(exclude_none=True)))
    async with AgentClient(url, tokens=TokenFolder(folder / "secrets")) as agent:
        assert (await agent.status()).agent == "agent-2"
        await agent.put_model(ModelDocument.parse({"revision": 1, "model": model}))
        assert (await agent.post([[1.0, 1.0]], [1])).stored == 1
    async with AgentClient(url, NO_PATIENCE) as stranger:
        with pytest.raises(AgentRefusedError, match="token"):
            await stranger.status()
