"""Which documents agents still need: the same ones, with the same numbers, wherever the last coordinator was killed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.network.plan import NetworkPlan
from client.network.rollout import (
    check_faults,
    check_models,
    is_at_its_bound,
    is_change,
    models_to_put,
    neighbors_to_put,
    start_from,
    until_round,
)
from service.errors import AgentUnreachableError, ModelLoadedError, NoModelError
from service.wire.configuration import NO_SCHEDULE
from tests.client.told import (
    BATCH,
    COUNT,
    PER_ROUND,
    URLS,
    Told,
    configure,
    new_network,
    plan_of,
    seen,
    uninterrupted,
    wanted_by,
)
from tests.network.plans import MODEL, write_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    write_data(folder / "points.npz", 333)
    return folder


@pytest.fixture(scope="module")
def plan(folder: Path) -> NetworkPlan:
    return plan_of(folder)


@pytest.fixture(scope="module")
def other(folder: Path) -> NetworkPlan:
    """The same agents and data on another graph."""
    return plan_of(folder, topology="star", mixing_weights="metropolis")


orders = st.permutations(range(COUNT))
deaths = st.lists(st.tuples(st.integers(0, 3 * COUNT), orders), max_size=6)


@settings(max_examples=25)
@given(deaths=deaths)
def test_a_coordinator_that_is_killed_ever_so_often_puts_what_one_does_that_is_not(
    plan: NetworkPlan, deaths: list[tuple[int, list[int]]]
) -> None:
    network = new_network()
    for budget, order in deaths:
        network = configure(plan, network, budget, order)
    ended = uninterrupted(plan, network)
    assert ended == uninterrupted(plan, new_network())
    assert [agent.puts for agent in ended] == [3] * COUNT  # each document once, whoever put it


def test_a_network_that_is_configured_gets_nothing(plan: NetworkPlan) -> None:
    network = uninterrupted(plan, new_network())
    again = uninterrupted(plan, network)
    assert [agent.puts for agent in again] == [3] * COUNT
    assert {agent.neighbors.epoch for agent in network} == {agent.schedule.revision for agent in network} == {1}


@given(st.data())
def test_the_bound_stays_wherever_a_run_was_broken_off(plan: NetworkPlan, data: st.DataObject) -> None:
    """Agents that are anywhere on their way, streams that are posted to any batch, schedules that some do not have."""
    configured = uninterrupted(plan, new_network())
    bound = until_round(plan, seen(new_network()))
    assert bound == max(-(-len(rows) // PER_ROUND) for rows in plan.parts) + plan.settle_rounds
    network = []
    begun = data.draw(st.booleans())
    for agent, rows in zip(configured, plan.parts, strict=True):
        batches = data.draw(st.integers(0, -(-len(rows) // BATCH))) if begun else 0
        collected = min(len(rows), batches * BATCH)
        ended = collected == len(rows)
        most = bound if ended else collected // PER_ROUND
        round_number = data.draw(st.integers(0, most))
        applied = min(collected, round_number * PER_ROUND)
        # A round's observations count as applied a moment before the round is shown.
        round_number = max(0, round_number - data.draw(st.integers(0, 1)))
        counts: dict[str, Any] = {"collected": collected, "applied": applied, "batches": batches, "ended": ended}
        network.append(replace(agent, round=round_number, rounds_in_all=round_number, **counts))
        if not begun and data.draw(st.booleans()):
            network[-1] = replace(network[-1], schedule=NO_SCHEDULE)
    assert until_round(plan, seen(network)) == bound
    assert [agent.schedule for agent in uninterrupted(plan, network)] == [agent.schedule for agent in configured]


@pytest.mark.parametrize("before_the_end", [0, 1, 3])
def test_the_bound_stays_while_a_network_settles_and_when_it_has_ended(plan: NetworkPlan, before_the_end: int) -> None:
    configured = uninterrupted(plan, new_network())
    bound = configured[0].schedule.until_round
    assert bound is not None
    settling = [
        replace(agent, round=bound - before_the_end, collected=len(rows), applied=len(rows), batches=4, ended=True)
        for agent, rows in zip(configured, plan.parts, strict=True)
    ]
    assert until_round(plan, seen(settling)) == bound
    assert uninterrupted(plan, settling) == settling


def test_observations_of_others_move_the_bound(plan: NetworkPlan) -> None:
    """What somebody else has posted has to be applied as well."""
    network = uninterrupted(plan, new_network())
    before = until_round(plan, seen(network))
    network[0] = replace(network[0], collected=500)
    assert until_round(plan, seen(network)) == -(-(500 + len(plan.parts[0])) // PER_ROUND) + plan.settle_rounds
    assert before is not None
    finished = [
        replace(agent, round=before, collected=len(rows), applied=len(rows), batches=4, ended=True)
        for agent, rows in zip(network, plan.parts, strict=True)
    ]
    finished[0] = replace(finished[0], collected=len(plan.parts[0]) + 500)
    assert until_round(plan, seen(finished)) == before + 50 + plan.settle_rounds


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": {"exchange": "latest"}},
        {"schedule": {"when_short": "go"}},
        {"schedule": {"source": "replay"}},
        {"data": []},
    ],
)
def test_only_streams_that_are_waited_for_have_a_bound(folder: Path, changes: dict[str, Any]) -> None:
    plan = plan_of(folder, **changes)
    assert until_round(plan, seen(new_network())) is None
    assert {agent.schedule.until_round for agent in uninterrupted(plan, new_network())} == {None}


def test_another_model_or_sensor_is_refused_by_the_agents_name(folder: Path, plan: NetworkPlan) -> None:
    network = uninterrupted(plan, new_network())
    sensor = [{"name": f"agent-{number}"} for number in range(1, COUNT + 1)]
    sensor[2]["likelihood"] = "logistic"
    for other in (plan_of(folder, model={**MODEL, "prior": {"information": 0.7}}), plan_of(folder, agents=sensor)):
        with pytest.raises(ModelLoadedError, match="another model") as caught:
            models_to_put(other, seen(network))
        assert str(caught.value).startswith("agent-1" if other.document.model != plan.document.model else "agent-3")
        assert "--fresh" in str(caught.value)
    # The same model in other words is the same.
    spelled = plan_of(folder, model={**MODEL, "family": "diagonal", "likelihood": "probit", "diagonal_step": "paper"})
    assert models_to_put(spelled, seen(network)) == [None] * COUNT


@settings(max_examples=25)
@given(deaths=deaths)
def test_a_change_of_the_graph_is_the_next_epoch_for_all_also_after_kills(
    plan: NetworkPlan, other: NetworkPlan, deaths: list[tuple[int, list[int]]]
) -> None:
    begun = [replace(agent, round=3, rounds_in_all=3) for agent in uninterrupted(plan, new_network())]
    assert is_change(neighbors_to_put(wanted_by(other, begun), seen(begun)), seen(begun))
    network = begun
    for budget, order in deaths:
        network = configure(other, network, budget, order)
    ended = uninterrupted(other, network)
    assert [agent.neighbors for agent in ended] == [agent.neighbors for agent in uninterrupted(other, begun)]
    assert {agent.neighbors.epoch for agent in ended} == {2}
    assert not is_change(neighbors_to_put(wanted_by(other, ended), seen(ended)), seen(ended))


def test_an_epoch_that_another_plan_has_begun_is_left_behind(folder: Path, plan: NetworkPlan) -> None:
    """Killed half-way with one file, started again with another one."""
    begun = [replace(agent, round=3, rounds_in_all=3) for agent in uninterrupted(plan, new_network())]
    half = configure(plan_of(folder, topology="line"), begun, 2, [0, 1, 2, 3])
    assert [agent.neighbors.epoch for agent in half] == [2, 2, 1, 1]
    ended = uninterrupted(plan_of(folder, topology="star"), half)
    assert {agent.neighbors.epoch for agent in ended} == {3}


def test_an_agent_at_another_address_begins_an_epoch_and_rounding_does_not(folder: Path, plan: NetworkPlan) -> None:
    network = uninterrupted(plan, new_network())
    rounded = replace(plan, mixing_matrix=plan.mixing_matrix * (1 + 1e-14))
    assert neighbors_to_put(wanted_by(rounded, network), seen(network)) == [None] * COUNT
    moved = [plan.neighbors_document(agent, {**URLS, "agent-2": "http://10.0.0.99:8001"}) for agent in range(COUNT)]
    documents = neighbors_to_put(moved, seen(network))
    assert [document and document.epoch for document in documents] == [2] * COUNT


def test_a_change_before_the_first_round_needs_no_common_round(folder: Path, plan: NetworkPlan) -> None:
    network = uninterrupted(plan, new_network())
    other = plan_of(folder, topology="line")
    assert not is_change(neighbors_to_put(wanted_by(other, network), seen(network)), seen(network))


def test_a_newcomer_starts_from_the_neighbor_with_the_most_weight_of_those_that_have_learned(folder: Path) -> None:
    matrix = [[0.6, 0.1, 0.0, 0.3], [0.1, 0.7, 0.2, 0.0], [0.0, 0.2, 0.3, 0.5], [0.3, 0.0, 0.5, 0.2]]
    plan = plan_of(folder, mixing_weights=matrix)
    network = [replace(agent, rounds_in_all=5, round=5) for agent in uninterrupted(plan, new_network())]
    network[3] = Told("agent-4", model=network[3].model)
    assert [start_from(plan, agent, seen(network)) for agent in range(COUNT)] == [None, None, None, "agent-3"]
    network[2] = replace(network[2], rounds_in_all=0, round=0)
    assert start_from(plan, 3, seen(network)) == "agent-1"
    network[0] = replace(network[0], rounds_in_all=0, round=0)
    assert start_from(plan, 3, seen(network)) is None  # nobody that it hears has learned anything


def test_a_fault_that_stays_is_told_and_a_restart_is_waited_for(plan: NetworkPlan) -> None:
    status = new_network()[0].seen().status
    check_faults([status, msgspec.structs.replace(status, faults={"stopping": "this agent is shutting down"})])
    for name in ("storage", "round", "round-gone"):
        with pytest.raises(AgentUnreachableError, match=r"^agent-1 cannot go on: so it is$"):
            check_faults([status, msgspec.structs.replace(status, faults={name: "so it is"})])


def test_an_agent_with_data_of_its_own_is_no_newcomer(plan: NetworkPlan) -> None:
    network = [replace(agent, rounds_in_all=5, round=5) for agent in uninterrupted(plan, new_network())]
    network[3] = Told("agent-4", model=network[3].model, collected=7)
    assert start_from(plan, 3, seen(network)) is None


def test_a_newcomers_start_is_not_asked_for_again_once_it_has_begun(folder: Path, plan: NetworkPlan) -> None:
    larger = plan_of(folder, agents=COUNT + 1)
    begun = [replace(agent, rounds_in_all=5, round=5) for agent in uninterrupted(plan, new_network())]
    network = [*begun, Told("agent-5")]
    half = configure(larger, network, 2, [4, 0, 1, 2, 3])
    assert (half[4].neighbors.epoch, half[4].neighbors.start_from) == (2, "agent-4")
    ended = uninterrupted(larger, half)
    assert {agent.neighbors.epoch for agent in ended} == {2}
    assert ended[4].neighbors == half[4].neighbors


def test_an_agent_is_at_its_bound_by_the_plans_schedule_and_no_other(plan: NetworkPlan) -> None:
    network = uninterrupted(plan, new_network())
    bound = network[0].schedule.until_round
    assert bound is not None

    def at(round_number: int, **changes: Any) -> bool:
        schedule = network[0].schedule.model_copy(update=changes)
        return is_at_its_bound(plan, replace(network[0], round=round_number, schedule=schedule).seen().status)

    assert [at(bound - 1), at(bound), at(bound + 1)] == [False, True, True]
    # Where a change makes agents stop is not where the run ends.
    assert not at(bound, paused=True)
    assert not at(bound, when_short="go", period_s=0.0)
    assert not at(bound, until_round=None)
    assert not is_at_its_bound(plan, new_network()[0].seen().status)


def test_beliefs_of_another_model_or_of_none_are_not_read(folder: Path, plan: NetworkPlan) -> None:
    network = uninterrupted(plan, new_network())
    check_models(plan, [one.status for one in seen(network)])
    other = plan_of(folder, model={**MODEL, "prior": {"information": 0.7}})
    with pytest.raises(ModelLoadedError, match="agent-1 holds another model"):
        check_models(other, [one.status for one in seen(network)])
    with pytest.raises(NoModelError, match="agent-1 has no model yet: configure the network with delbo up"):
        check_models(plan, [one.status for one in seen(new_network())])
