"""Every metric of an agent: its name, what it tells, and how it is read. docs/metrics.md is made from this table:

python -m service.api.metric_table > docs/metrics.md
"""

import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, get_args

from service.agent.agent import Agent
from service.agent.neighbors import Link, LinkState
from service.agent.report import backlog
from service.agent.rounds import Phase

Sample = tuple[tuple[str, ...], float]


class Metric(NamedTuple):
    """One metric: its name, what it tells, its labels, and how it is read off an agent."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    help: str
    read: Callable[[Agent], Any]  # a histogram's Durations, else samples: values with their labels
    labels: tuple[str, ...] = ()


def _one(value: float | None) -> list[Sample]:
    return [] if value is None else [((), float(value))]


def _by_name(values: dict[str, float] | None) -> list[Sample]:
    return [((name,), float(value)) for name, value in (values or {}).items()]


def _by_neighbor(counts: Callable[[Link], dict[str, int]]) -> Callable[[Agent], list[Sample]]:
    def read(agent: Agent) -> list[Sample]:
        return [
            ((link.neighbor.name, what), float(count))
            for link in agent.neighbors.links
            for what, count in counts(link).items()
        ]

    return read


def _phases(agent: Agent) -> list[Sample]:
    return [((phase,), float(phase == agent.rounds.phase)) for phase in get_args(Phase)]


def _states(agent: Agent) -> list[Sample]:
    now, stale_after_s = agent.clock(), agent.configuration.schedule.stale_after_s
    return [
        ((link.neighbor.name, state), float(state == link.state(now, stale_after_s)))
        for link in agent.neighbors.links
        for state in get_args(LinkState)
    ]


def _ages(agent: Agent) -> list[Sample]:
    ages = ((link.neighbor.name, link.age_s(agent.clock())) for link in agent.neighbors.links)
    return [((name,), age) for name, age in ages if age is not None]


def _distances(agent: Agent) -> list[Sample]:
    measured, present = agent.rounds.measured, {link.neighbor.name for link in agent.neighbors.links}
    distances = {} if measured is None else measured.distances or {}
    return _by_name({name: distance for name, distance in distances.items() if name in present})


def _scores(agent: Agent) -> list[Sample]:
    return _by_name(None if agent.rounds.verified is None else agent.rounds.verified.scores)


def _build(agent: Agent) -> list[Sample]:  # noqa: ARG001 - one interface
    return [((version("delbo"), platform.python_version()), 1.0)]


def _agent(agent: Agent) -> list[Sample]:
    model = agent.configuration.model
    _, incarnation = agent.store.identity
    return [((agent.name, f"{incarnation:x}", "" if model is None else model.model_id), 1.0)]


def _name(agent: Agent, part: Literal[0, 1]) -> list[Sample]:
    shown = agent.publication.current
    return _one(None if shown is None else shown.name[part])


def _sent(agent: Agent) -> list[Sample]:
    return [(("peers",), float(agent.traffic.sent_to_peers)), (("others",), float(agent.traffic.sent))]


METRICS = (
    Metric("gauge", "delbo_build_info", "Always 1; its labels tell what runs.", _build, ("version", "python")),
    Metric(
        "gauge",
        "delbo_agent_info",
        "Always 1; its labels tell who this is.",
        _agent,
        ("agent", "incarnation", "model_id"),
    ),
    Metric("gauge", "delbo_ready", "1 if the agent can do its work, as /readyz says.", lambda a: _one(not a.faults())),
    Metric("gauge", "delbo_phase", "1 for what the agent does now, 0 for all else.", _phases, ("phase",)),
    Metric("gauge", "delbo_epoch", "The epoch that the agent shows.", lambda a: _name(a, 0)),
    Metric("gauge", "delbo_round", "The round, within its epoch, that the agent shows.", lambda a: _name(a, 1)),
    Metric("counter", "delbo_rounds", "Rounds committed, in all epochs.", lambda a: _one(a.store.counters.rounds)),
    Metric(
        "histogram",
        "delbo_round_seconds",
        "From all that a round needs being there until it is committed and shown.",
        lambda a: a.rounds.durations,
    ),
    Metric(
        "histogram",
        "delbo_round_wait_seconds",
        "What a round waited for neighbors and observations.",
        lambda a: a.rounds.waits,
    ),
    Metric(
        "histogram",
        "delbo_commit_seconds",
        "Commits to disk: of rounds, observations and documents.",
        lambda a: a.store.database.commits,
    ),
    Metric(
        "counter",
        "delbo_observations_accepted",
        "Observations that are on disk, applied or not.",
        lambda a: _one(a.store.counters.collected),
    ),
    Metric(
        "counter",
        "delbo_observations_applied",
        "Observations that rounds have taken; with replay they are drawn again and again.",
        lambda a: _one(a.store.counters.applied),
    ),
    Metric(
        "counter",
        "delbo_observations_uncovered",
        "Observations that no centre of the model reaches, and that changed nothing.",
        lambda a: _one(a.store.counters.uncovered),
    ),
    Metric("gauge", "delbo_backlog_observations", "Observations that wait to be applied.", lambda a: _one(backlog(a))),
    Metric(
        "counter",
        "delbo_pulls",
        "Answers of neighbors to pulls, and pulls without an answer, by what came of them.",
        _by_neighbor(lambda link: link.counts),
        ("neighbor", "outcome"),
    ),
    Metric(
        "counter",
        "delbo_refused_messages",
        "Parameter messages of neighbors that were refused, by the reason.",
        _by_neighbor(lambda link: link.refusals),
        ("neighbor", "reason"),
    ),
    Metric(
        "gauge",
        "delbo_neighbor_state",
        "1 for how a neighbor is found, 0 for all else.",
        _states,
        ("neighbor", "state"),
    ),
    Metric("gauge", "delbo_neighbor_age_seconds", "Since a neighbor last answered properly.", _ages, ("neighbor",)),
    Metric(
        "gauge",
        "delbo_neighbor_distance",
        "How far a neighbor's mean is from the own one, the absolute differences of all parameters added up; taken "
        "every second or so, of what a round mixed.",
        _distances,
        ("neighbor",),
    ),
    Metric(
        "gauge",
        "delbo_objective_nats",
        "The agent's own part of the DELBO: how well its belief explains the last observations, less how far they "
        "moved it; taken every second or so.",
        lambda a: _one(None if a.rounds.measured is None else a.rounds.measured.delbo),
    ),
    Metric("gauge", "delbo_verification_score", "Scores on the verification data, the newest.", _scores, ("score",)),
    Metric(
        "gauge",
        "delbo_verification_round",
        "The round that these scores are of.",
        lambda a: _one(None if a.rounds.verified is None else a.rounds.verified.round),
    ),
    Metric(
        "counter",
        "delbo_pulled_bytes",
        "Bytes of neighbors' answers to pulls, without their headers.",
        lambda a: [((link.neighbor.name,), float(link.received)) for link in a.neighbors.links],
        ("neighbor",),
    ),
    Metric(
        "counter",
        "delbo_received_bytes",
        "Bytes of the bodies of requests.",
        lambda a: _one(a.traffic.received),
    ),
    Metric("counter", "delbo_sent_bytes", "Bytes of the bodies of answers.", _sent, ("to",)),
    Metric(
        "counter",
        "delbo_refused_requests",
        "Requests that were answered with a problem, by its type as in docs/problems.md.",
        lambda a: _by_name(dict(a.traffic.refused)),
        ("problem",),
    ),
)


_PAGE_HEAD = """# Metrics

`GET /metrics` (also `/v1/metrics`) tells an agent in figures, for Prometheus; it needs no token. In Prometheus:

```yaml
scrape_configs:
  - job_name: delbo
    static_configs: [{targets: ["10.0.0.7:8001", "10.0.0.8:8001"]}]
```

Counters of observations and rounds go on after a restart, as the agent keeps them with its data; all others begin
anew, and those of a neighbor also when its url changes.
Beside these there are `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds` and the other
usual ones of a process. This page is made from the code: `python -m service.api.metric_table > docs/metrics.md`.

| metric | kind | labels | what it tells |
|---|---|---|---|"""


def page() -> str:
    """docs/metrics.md."""
    lines = [_PAGE_HEAD]
    for metric in METRICS:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        lines.append(f"| `{name}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
