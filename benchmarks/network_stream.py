"""Intel streamed through REST to four local agents that learn it together, beside the same rounds in one process."""

import tempfile
import time
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.measure import Result, UnavailableError
from benchmarks.points import intel_file
from client.cluster import Cluster
from client.coordinator import Coordinator
from client.network.document import parse_network
from client.network.plan import NetworkPlan, make_plan
from client.simulation import Simulation
from service.inference.round import RoundRule

BATCH = 1000
FINER = 100


def run() -> list[Result]:
    """Both in turn, the better of two runs of each; the same observations, rounds and settling.

    The simulation also with rounds of 100, as the README's `delbo fit` has them: its rate is no one number.
    """
    plan = _plan()
    observations = sum(len(rows) for rows in plan.parts)
    network, simulated = [], []
    for _ in range(2):
        simulated.append(_simulate(plan, BATCH))
        network.append(uvloop.run(_stream(plan)))
    seconds, posting = min(network)
    finer = min(_simulate(plan, FINER) for _ in range(2))
    remark = (
        f"{observations / seconds:,.0f} observations/s posted, learned, agreed on and on disk ({posting:.2f} of "
        f"{seconds:.2f} s until the last post was answered); in one process {observations / min(simulated):,.0f}/s, "
        f"and with rounds of {FINER}, as the README's delbo fit has them, {observations / finer:,.0f}/s"
    )
    return [
        Result(
            f"Intel over REST, 4 agents{name}",
            f"posts and rounds of {BATCH}",
            f"simulation, rounds of {batch}",
            seconds / observations,
            simulated_s / observations,
            "s per observation",
            target=0.4,
            remark=remark,
        )
        for name, batch, simulated_s in (("", BATCH, min(simulated)), (", finer rounds", FINER, finer))
    ]


def _plan() -> NetworkPlan:
    content = {
        "agents": 4,
        "model": {
            "features": {
                "kind": "lattice",
                "spacing": 0.2,
                "lengthscale": 0.15,
                "lower": [-20, -25],
                "upper": [20, 15],
            },
            "prior": {"information": 0.2},
            "likelihood": "probit",
        },
        "schedule": {"observations_per_round": BATCH, "period_s": 0},
        "data": {"kind": "table", "path": str(intel_file())},
        "stream": {"batch": BATCH},
    }
    return make_plan(parse_network(content, "benchmark"), Path(), "benchmark")


async def _stream(plan: NetworkPlan) -> tuple[float, float]:
    """Seconds from the first post until all have settled, and until the last post was answered."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), plan.names)
        try:
            async with Coordinator(plan, await cluster.up()) as coordinator:
                await coordinator.configure()
                began = time.perf_counter()
                await coordinator.stream()
                posted = time.perf_counter() - began
                await coordinator.wait_until_settled()
                return time.perf_counter() - began, posted
        finally:
            await cluster.down()


def _simulate(plan: NetworkPlan, batch: int) -> float:
    if plan.train is None:
        raise UnavailableError("there is no data")
    began = time.perf_counter()
    rule = RoundRule(plan.prior, float(len(plan.names)), plan.spec.step)
    simulation = Simulation(plan.features, plan.likelihood, rule, plan.mixing_matrix)
    rounds = -(-max(len(rows) for rows in plan.parts) // batch)
    for number in range(rounds + plan.settle_rounds):
        taken = [rows[number * batch : (number + 1) * batch] for rows in plan.parts]
        rows = np.concatenate(taken)
        simulation.advance_rows(plan.train.x[rows], plan.train.y[rows], np.cumsum([0, *map(len, taken)]))
    return time.perf_counter() - began
