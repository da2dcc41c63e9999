"""`delbo run` is killed at random moments, in one run and over several: every observation is applied once, exactly."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from client.cluster import Cluster
from tests.network.plans import check_run, start, statuses_at, write_network
from tests.network.runs import Run
from tests.processes import Agents, until

pytestmark = pytest.mark.thorough

KILLS = 30


def test_thirty_kills_in_one_run_change_nothing(agents: Agents, tmp_path: Path) -> None:
    running = start(agents, 4)
    urls = [agent.url for agent in running]
    # Slow enough to be killed thirty times on the way: 81 posts to each agent.
    path = write_network(tmp_path, running, stream={"batch": 2, "rate_per_s": 8}, settle_rounds=20)
    moments = random.Random(4)
    with Run(tmp_path, "run", path, "--json") as run:
        began = time.monotonic()
        until(lambda: any(status.model_id for status in statuses_at(urls)))
        until_configured_s = time.monotonic() - began
        run.kill()
    for _ in range(KILLS):
        with Run(tmp_path, "run", path, "--json") as run:
            # While it starts, while it looks round, configures or streams: no moment is better than another.
            time.sleep(until_configured_s * moments.uniform(0.8, 1.5))
            run.kill()
    with Run(tmp_path, "run", path, "--json") as run:
        run.finish()
    check_run(path, urls)


@pytest.mark.parametrize(
    ("seed", "changes"),
    [
        (1, {"topology": "line"}),
        (2, {"topology": {"kind": "digraph", "degree": 1.5, "seed": 2}, "agents": 5}),
        (3, {"topology": "star", "mixing_weights": "metropolis"}),
        (4, {"stream": {"batch": 500}}),
        (5, {"schedule": {"observations_per_round": 3, "period_s": 0.005, "forgetting": 0.99}}),
    ],
)
def test_kills_of_runs_with_agents_of_their_own_change_nothing(
    tmp_path: Path, seed: int, changes: dict[str, Any]
) -> None:
    path = write_network(tmp_path, **{"agents": 3, "stream": {"batch": 6, "rate_per_s": 60}, **changes})
    command = ("run", path, "--runs", tmp_path / "runs", "--json")
    moments = random.Random(seed)
    for _ in range(4):
        with Run(tmp_path, *command) as run:
            time.sleep(moments.uniform(0.0, 5.0))
            run.kill()
    with Run(tmp_path, *command) as run:
        result = run.finish()
    cluster = Cluster(tmp_path / "runs" / "small", [agent["name"] for agent in result["agents"]])
    try:
        urls = list(asyncio.run(cluster.up()).values())  # as they have ended
        until(lambda: all(status.phase == "finished" for status in statuses_at(urls)))
        check_run(path, urls)
    finally:
        asyncio.run(cluster.down())
