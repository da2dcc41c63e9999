"""A real Prometheus scrapes a real agent, and answers with the agent's own figures."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.api.test_events import load, run_rounds
from tests.processes import PATIENCE_S, AgentProcess, Agents, free_port, until

PROMETHEUS = shutil.which("prometheus")

pytestmark = [
    pytest.mark.skipif("CI" in os.environ, reason="CI is set: a real Prometheus is tried by hand, not in CI"),
    pytest.mark.skipif(PROMETHEUS is None, reason="NO PROMETHEUS HERE, NOT TESTED: apt-get install prometheus"),
]


@pytest.fixture
def agent(agents: Agents) -> AgentProcess:
    return load(agents('a "1"'))


@pytest.fixture
def prometheus(agent: AgentProcess, tmp_path: Path) -> Iterator[httpx2.Client]:
    """It scrapes the agent ten times a second, as docs/metrics.md says, and keeps all in a folder of its own."""
    scraping = {"job_name": "delbo", "static_configs": [{"targets": [f"127.0.0.1:{agent.port}"]}]}
    configuration = {"global": {"scrape_interval": "100ms"}, "scrape_configs": [scraping]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    command = [
        PROMETHEUS or "",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'kept'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def values(prometheus: httpx2.Client, query: str) -> list[float]:
    """What the query gives now; nothing while Prometheus still starts."""
    try:
        answer = prometheus.get("/api/v1/query", params={"query": query})
    except httpx2.TransportError:
        return []
    return [float(sample["value"][1]) for sample in results(answer)]


def results(answer: httpx2.Response) -> list[dict[str, Any]]:
    if answer.status_code == 503:
        return []
    document = answer.json()
    assert (answer.status_code, document["status"]) == (200, "success"), answer.text
    return list(document["data"]["result"])


def test_prometheus_scrapes_an_agent_and_knows_its_rounds(agent: AgentProcess, prometheus: httpx2.Client) -> None:
    last = run_rounds(agent, 37)
    until(lambda: values(prometheus, "delbo_rounds_total") == [last])
    last = run_rounds(agent, 5)
    until(lambda: values(prometheus, "delbo_rounds_total") == [last])
    assert values(prometheus, 'delbo_agent_info{agent="a \\"1\\""}') == [1]
    assert values(prometheus, "delbo_round_seconds_count") == [last]
    assert values(prometheus, "up") == [1]
    assert values(prometheus, "histogram_quantile(1, delbo_commit_seconds_bucket) > 0")
