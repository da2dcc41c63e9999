"""`/metrics`: two real agents in figures, each figure against what is known of it otherwise."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from service.agent.agent import Agent
from service.agent.http_client import Reply
from service.api.metric_table import METRICS, page
from service.api.metrics import registry_of, write_metrics
from service.inference.objective import delbo_component
from service.wire.configuration import ModelDocument
from tests.api.metric_story import (
    AHEAD,
    BATCH,
    CODEC,
    EPOCH,
    FORGETTING,
    MODEL,
    ODD_NAME,
    ROUNDS,
    WEIGHT,
    Counted,
    Metrics,
    Story,
    X,
    Y,
    live_through,
)
from tests.api.test_events import PAUSED, history, run_rounds
from tests.network.test_bad_neighbors import MODEL as MODEL_OF_FAKES
from tests.network.test_bad_neighbors import Fake, connect, ok, says, serving, shows
from tests.processes import ROOT, AgentProcess, Agents, agent_factory, until


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    for start in agent_factory(tmp_path_factory.mktemp("metrics")):
        one, other = start("a1", wait=False), start(ODD_NAME, wait=False)
        yield live_through(Counted(one.wait_ready()), Counted(other.wait_ready()))


# The formats.


def test_every_metric_of_the_table_occurs_in_both_formats_with_its_kind_and_help(story: Story) -> None:
    """Those without samples so far (a neighbor's refusals) occur by their head."""
    http = story.other.agent.http
    plain = http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    openmetrics_text = http.get("/v1/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert openmetrics_text.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    for families in (
        list(text_string_to_metric_families(plain.text)),
        list(openmetrics_parser.text_string_to_metric_families(openmetrics_text.text)),  # type: ignore[no-untyped-call]
    ):
        told = {family.name: (family.type, family.documentation) for family in families}
        assert {metric.name: (metric.kind, metric.help) for metric in METRICS}.items() <= told.items()
        assert "process_resident_memory_bytes" in told
        labels = {metric.name: set(metric.labels) for metric in METRICS}
        for family in families:
            for sample in family.samples if family.name in labels else ():
                assert set(sample.labels) - {"le"} == labels[family.name], sample


@pytest.mark.parametrize("rest", ["", "; version=abc", "; version=1..0", "; version=" + "9" * 5000, ", text/plain"])
def test_whatever_version_is_asked_for_ours_is_answered(story: Story, rest: str) -> None:
    answer = story.other.agent.http.get("/metrics", headers={"accept": f"application/openmetrics-text{rest}"})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (
        200,
        "application/openmetrics-text",
    )
    assert len(answer.headers["content-type"]) < 100


def test_names_of_agents_with_any_letters_are_told_as_they_are(story: Story) -> None:
    assert story.other.metrics().all("agent_info").popitem()[0][0] == ODD_NAME
    assert story.one.metrics()("pulls_total", neighbor=ODD_NAME, outcome="new") == ROUNDS


@pytest.mark.asyncio
async def test_a_name_with_a_line_end_does_not_break_the_format(tmp_path: Path) -> None:
    """No agent is called so, as its settings refuse it; but the format has a rule for it, and keeps it."""

    async def fetch(url: str, target: str, headers: dict[str, str], limit: int) -> Reply:
        raise OSError

    name = 'a\n"\\\n# HELP x'
    agent = Agent(name, tmp_path, fetch, time.monotonic, 10, 10)
    try:
        for accept in ("", "application/openmetrics-text; version=1.0.0"):
            text, _ = write_metrics(registry_of(agent), accept)
            parse = openmetrics_parser.text_string_to_metric_families if accept else text_string_to_metric_families
            samples = [sample for family in parse(text.decode()) for sample in family.samples]
            assert [one.labels["agent"] for one in samples if one.name == "delbo_agent_info"] == [name]
    finally:
        agent.stop()
        await agent.run()


def test_the_page_of_metrics_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == page()


def test_metrics_are_named_as_prometheus_advises() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"delbo(_[a-z]+)+", metric.name)
        assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket"))  # which the formats add
        assert metric.kind != "histogram" or metric.name.endswith("_seconds")
        assert not set(metric.labels) & {"le", "job", "instance"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here: apt-get install prometheus")
def test_promtool_finds_nothing_to_complain_of(story: Story) -> None:
    own = [line for line in story.one.agent.http.get("/metrics").text.splitlines() if "delbo_" in line]
    text = "\n".join(own) + "\n"
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


# The figures.


def test_what_the_status_tells_is_told_in_figures(story: Story) -> None:
    for counted in (story.one, story.other):
        status, told = counted.agent.status(), counted.metrics()
        observations, (neighbor,) = status["observations"], status["neighbors"]
        assert (told("epoch"), told("round"), told("rounds_total")) == (EPOCH, ROUNDS, status["rounds_in_all"])
        assert told("observations_accepted_total") == observations["collected"] == BATCH * ROUNDS + AHEAD
        assert told("observations_applied_total") == observations["applied"] == BATCH * ROUNDS
        assert told("backlog_observations") == observations["backlog"] == AHEAD
        assert told("observations_uncovered_total") == observations["uncovered"] == (counted is story.one)
        assert told("ready") == 1
        assert {phase for (phase,), value in told.all("phase").items() if value} == {"paused"}
        assert {one for one, value in told.all("neighbor_state").items() if value} == {(neighbor["name"], "fresh")}
        assert (len(told.all("phase")), len(told.all("neighbor_state"))) == (8, 4)
        assert told.all("pulls_total") == {(neighbor["name"], "new"): ROUNDS}
        assert neighbor["pulls"] == {"new": ROUNDS}
        age = told("neighbor_age_seconds", neighbor=neighbor["name"])
        assert age is not None
        assert neighbor["age_s"] - 0.001 <= age < neighbor["age_s"] + 60  # rounded there, asked for later here
        labels = (status["agent"], f"{status['incarnation']:x}", status["model_id"])
        assert told.all("agent_info") == {labels: 1}


def test_the_distance_is_that_of_the_parameters_that_were_mixed(story: Story) -> None:
    rounds = history(story.one.agent, ROUNDS)
    for (own, neighbors), summary in zip(story.shown, rounds, strict=False):
        means = CODEC.prior.plus(own).mean, CODEC.prior.plus(neighbors).mean
        distance = float(np.abs(means[0] - means[1]).sum())
        assert summary["distances"] == {ODD_NAME: pytest.approx(distance, rel=1e-12)}
    told = story.one.metrics()
    assert told.all("neighbor_distance") == {(ODD_NAME,): rounds[-1]["distances"][ODD_NAME]}
    assert rounds[-1]["distances"][ODD_NAME] > 0.1  # or it would show nothing


def test_the_objective_is_the_agents_part_of_the_delbo(story: Story) -> None:
    document = ModelDocument.parse({"revision": 1, "model": MODEL})
    features, likelihood = document.spec.build_features(), document.build_likelihood()
    rounds = history(story.one.agent, ROUNDS)
    for number, summary in enumerate(rounds):
        own, neighbors = story.shown[number]
        mixed = CODEC.prior.plus((own * (1 - WEIGHT) + neighbors * WEIGHT) * FORGETTING)
        belief = CODEC.prior.plus(story.shown[number + 1][0])
        rows = slice(number * BATCH, (number + 1) * BATCH)
        x, y = X[::2][rows], Y[::2][rows]
        expected = delbo_component(belief, mixed, features.activate(x), y.astype(float), likelihood, 2)
        assert summary["delbo"] == pytest.approx(expected, rel=1e-9)  # mixed in another order of additions
    assert story.one.metrics()("objective_nats") == rounds[-1]["delbo"]


def test_scores_are_those_of_the_newest_verified_round(story: Story) -> None:
    told = story.one.metrics()
    scores = history(story.one.agent, 1)[0]["scores"]
    assert told.all("verification_score") == {(name,): value for name, value in scores.items()}
    assert (told("verification_round"), len(scores)) == (ROUNDS, 4)
    told = story.other.metrics()
    assert (told.all("verification_score"), told("verification_round")) == ({}, None)


def test_bytes_are_those_of_the_bodies(story: Story) -> None:
    for counted, peer in ((story.one, story.other), (story.other, story.one)):
        pulled = peer.metrics()("pulled_bytes_total", neighbor=counted.agent.name)
        assert pulled is not None
        sent, got = counted.sent, counted.got.copy()
        told = counted.metrics()
        assert told("received_bytes_total") == sent > 0
        assert told("sent_bytes_total", to="others") == got["others"]
        assert told("sent_bytes_total", to="peers") == got["peers"] + pulled
    assert story.other.metrics()("pulled_bytes_total", neighbor="a1") == sum(story.sizes) > 0


def test_refused_requests_are_counted_by_their_problem(story: Story) -> None:
    told = story.one.metrics().all("refused_requests_total")
    assert told == {(problem,): count for problem, count in story.one.problems.items()}
    assert story.other.metrics().all("refused_requests_total") == {}


def test_every_round_and_every_commit_has_a_duration(story: Story) -> None:
    told = story.one.metrics()
    opened, documents, batches = 1, 4, 1
    assert told("round_seconds_count") == told("round_wait_seconds_count") == ROUNDS
    assert told("commit_seconds_count") == opened + documents + batches + ROUNDS
    for name in ("round_seconds", "round_wait_seconds", "commit_seconds"):
        buckets = list(told.all(f"{name}_bucket").values())
        assert buckets == sorted(buckets)
        assert buckets[-1] == told(f"{name}_count")
    computed = sum(summary["computed_s"] for summary in history(story.one.agent, ROUNDS))
    total = told("round_seconds_sum")
    assert total is not None
    assert total > computed - 1e-6 * ROUNDS  # which are rounded


# Refused messages, and a restart.


def test_refused_messages_are_counted_by_neighbor_and_reason_and_rounds_go_on_counting_after_a_restart(
    agents: Agents,
) -> None:
    garbage = Fake("garbage", says(ok(b"\xc1")), "refused", "malformed", is_bad=True)
    stranger = Fake("stranger", shows(agent="somebody else"), "refused", "wrong-agent", is_bad=True)
    agent = agents()
    agent.put("model", {"revision": 1, "model": MODEL_OF_FAKES})
    agent.put("schedule", PAUSED | {"exchange": "latest"})
    with serving([garbage, stranger]):
        connect(agent, {one.name: f"http://127.0.0.1:{one.port}" for one in (garbage, stranger)})
        until(lambda: ask_again(agent))
        check_refusals(agent, Metrics(agent.http.get("/metrics").text))
    rounds = agent.status()["rounds_in_all"]
    agent.kill()
    agent.start()
    told = Metrics(agent.http.get("/metrics").text)
    assert (told("rounds_total"), told("round_seconds_count")) == (rounds, 0)
    assert (told.all("refused_messages_total"), told.all("neighbor_age_seconds")) == ({}, {})
    assert told("pulled_bytes_total", neighbor="garbage") == 0


def ask_again(agent: AgentProcess) -> bool:
    """Rounds until each was refused twice, in spite of its back-off."""
    run_rounds(agent, 1)
    return all(sum(row["refusals"].values()) >= 2 for row in agent.status()["neighbors"])


def check_refusals(agent: AgentProcess, told: Metrics) -> None:
    rows = {row["name"]: row for row in agent.status()["neighbors"]}
    for name, reason in (("garbage", "malformed"), ("stranger", "wrong-agent")):
        count = rows[name]["refusals"][reason]
        assert told("refused_messages_total", neighbor=name, reason=reason) == count
        assert told("pulls_total", neighbor=name, outcome="refused") == count
        assert told("neighbor_state", neighbor=name, state="refused") == 1
        assert told("neighbor_distance", neighbor=name) is None
    assert told("pulled_bytes_total", neighbor="garbage") == rows["garbage"]["refusals"]["malformed"]  # a byte each
    assert len(told.all("refused_messages_total")) == 2
