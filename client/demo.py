"""The demo: robots explore a simulated building, each its own part, and post what they see to agents of their own.

Real processes, real HTTP. Every agent ends with the whole map, though none ever saw another's data.
"""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml

from client.dashboard.background import end_dashboards, kept_dashboard
from client.demo_world import DEMO_MODEL, DEMO_WORLD
from client.network.document import NAME_PATTERN, parse_network
from client.network.plan import NetworkPlan, load_plan, make_plan
from client.result import Result
from client.running import View, compare_plan, run_network
from client.site import Site
from service.errors import SettingError

_STREAM_S = 15.0  # so long the robots explore
_TEST_POINTS = 8000
_PER_ROUND = 100
_HEAD_BEGINS = "# Written by `delbo demo`"
_HEAD = (
    _HEAD_BEGINS
    + """: the network that it ran. Change it, and try `delbo run {file}`.
"""
)


def write_network(folder: Path, agents: int, seed: int) -> Path:
    """The demo's network as a file, to look at and to go on with."""
    path = folder / "network.yaml"
    name = folder.resolve().name
    if not re.fullmatch(NAME_PATTERN, name):
        raise SettingError(f"--out {folder}: the folder names the network: take letters, digits and . _ -, like demo")
    if path.exists() and not path.read_text(errors="replace").startswith(_HEAD_BEGINS):
        raise SettingError(f"--out {folder}: holds a network of its own, {path}: take another folder")
    path.write_text(
        _HEAD.format(file=path) + yaml.safe_dump(demo_network(name, agents, "ring", seed), sort_keys=False),
        encoding="utf-8",
    )
    return path


def demo_network(name: str, agents: int | list[dict[str, str]], topology: str, seed: int) -> dict[str, Any]:
    """The demo's network as a document, its agents listed or by their number."""
    content: dict[str, Any] = {
        "name": name,
        "agents": agents,
        "topology": topology,
        "model": DEMO_MODEL,
        "schedule": {"exchange": "lockstep", "observations_per_round": _PER_ROUND, "period_s": 0.0},
        "data": {"kind": "world", **DEMO_WORLD, "seed": seed},
        "verification": {"points": _TEST_POINTS, "every_rounds": 10},
        "stream": {"batch": 200},
    }
    plan = make_plan(parse_network(content, name), Path(), name)
    longest = max(len(rows) for rows in plan.parts)
    content["stream"]["rate_per_s"] = float(round(longest / _STREAM_S))
    return content


async def run_demo(path: Path, keep: bool, view: View) -> tuple[Result, str | None]:
    """Start the agents, stream what the robots see, and compare with one learner and with agents alone.

    keep: agents and a dashboard go on afterwards; its address comes with the result.
    """
    plan = load_plan(path)
    async with AsyncExitStack() as stack:
        await end_dashboards(path)  # of an earlier run
        dashboard = await stack.enter_async_context(kept_dashboard(path, _runs_of(path))) if keep else None
        view.say(f"starting {len(plan.names)} agents" + (f"; watch them on {dashboard}" if dashboard else ""))
        comparing = asyncio.create_task(asyncio.to_thread(compare_plan, plan))
        async with demo_site(plan, path).running(fresh=True, keep=keep) as urls:
            return await run_network(plan, urls, view, await comparing, keep), dashboard


def _runs_of(path: Path) -> Path:
    """The folder that has the network's own, also where that is the present one."""
    return path.resolve().parent.parent


def demo_site(plan: NetworkPlan, path: Path) -> Site:
    """The agents keep their data beside the file."""
    return Site(plan.document, path.parent)
