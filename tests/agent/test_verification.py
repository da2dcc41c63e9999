"""Verification: the scores of a belief, for every likelihood, and the rounds that an agent takes them in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.agent import model as model_module
from service.agent import verification as verification_module
from service.agent.agent import Agent
from service.agent.exchange import first_state
from service.agent.model import LoadedModel
from service.agent.verification import LoadedVerification
from service.errors import NoModelError, OlderRevisionError, RevisionTakenError
from service.inference.belief import Belief
from service.inference.objective import (
    accuracy,
    balanced_accuracy,
    calibration_error,
    cross_entropy,
    root_mean_square_error,
)
from service.inference.prediction import predict
from service.wire.answers import RoundSummary
from service.wire.configuration import NO_NEIGHBORS, NO_SCHEDULE, ModelDocument
from service.wire.verification import VerificationDocument
from tests.agent.test_rounds import Peers, connect, living, observe, schedule
from tests.wire.test_model import CENTERS, SMALL

KINDS: dict[str, dict[str, Any]] = {
    "probit": {"kind": "probit"},
    "logistic": {"kind": "logistic"},
    "poisson": {"kind": "poisson"},
    "gaussian": {"kind": "gaussian", "precision": 4.0},
    "vector": {"kind": "gaussian", "precision": [[4.0, 1.0], [1.0, 2.0]]},
    "student_t": {"kind": "student_t", "degrees": 4.0, "scale": 0.5},
}
FEATURES = {"lattice": SMALL["features"], "dense": CENTERS["features"]}


def load(likelihood: str, features: str = "lattice", family: str = "diagonal") -> LoadedModel:
    document = {**SMALL, "features": FEATURES[features], "likelihood": KINDS[likelihood], "family": family}
    return LoadedModel.load(ModelDocument.parse({"revision": 1, "model": document}))


def make_rows(likelihood: str, count: int, seed: int) -> tuple[Any, Any]:
    """Points, and targets that the likelihood can produce."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 1, (count, 2))
    f = 2 * x[:, 0] - x[:, 1]
    if likelihood in ("probit", "logistic"):
        return x, (f + generator.normal(0, 0.3, count) > 0.5).astype(float)
    if likelihood == "poisson":
        return x, generator.poisson(np.exp(f)).astype(float)
    return x, np.column_stack((f, -f)) if likelihood == "vector" else f


def learned(model: LoadedModel, x: Any, y: Any) -> Belief:
    state = first_state("a", 0, model.codec.nothing)
    return model.belief(model.compute(state, {}, NO_NEIGHBORS, NO_SCHEDULE, x, y).state)


def recomputed(model: LoadedModel, belief: Belief, x: Any, y: Any) -> dict[str, float]:
    """The scores of all points at once, from the inference alone."""
    prediction = predict(belief, model.features.activate(x), model.likelihood)
    if model.likelihood.is_binary:
        scores = (accuracy, balanced_accuracy, cross_entropy, calibration_error)
        return {score.__name__: score(prediction.mean, y) for score in scores}
    densities = model.likelihood.log_predictive_density(y, prediction.latent_mean, prediction.latent_variance)
    return {"rmse": root_mean_square_error(prediction.mean, y), "log_density": float(densities.mean())}


# The scores.


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize("likelihood", KINDS)
def test_scores_are_those_of_the_inference_for_every_likelihood(likelihood: str, family: str, features: str) -> None:
    model = load(likelihood, features, family)
    belief = learned(model, *make_rows(likelihood, 30, seed=0))
    x, y = make_rows(likelihood, 25, seed=1)
    scores = LoadedVerification(VerificationDocument(1, 1, x, y), model).scores(belief)
    assert scores == pytest.approx(recomputed(model, belief, x, y), rel=1e-12)  # a square root, squared and added up
    assert len(scores) == (4 if model.likelihood.is_binary else 2)


@pytest.mark.parametrize("kept_values", [10**9, 60, 0], ids=["all kept", "too many", "none kept"])
@pytest.mark.parametrize("likelihood", ["probit", "gaussian", "vector"])
@pytest.mark.parametrize("features", FEATURES)
def test_scores_of_points_in_parts_are_those_of_the_whole(
    likelihood: str, features: str, kept_values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(likelihood, features)
    belief = learned(model, *make_rows(likelihood, 30, seed=0))
    x, y = make_rows(likelihood, 25, seed=1)
    expected = recomputed(model, belief, x, y)
    monkeypatch.setattr(model_module, "_LOCAL_POINTS", 7)
    monkeypatch.setattr(model_module, "_DENSE_POINT_VALUES", 1)
    monkeypatch.setattr(model_module, "_FEWEST_ROWS", 7)
    monkeypatch.setattr(verification_module, "_KEPT_VALUES", kept_values)
    verification = LoadedVerification(VerificationDocument(1, 1, x, y), model)
    assert model.points_at_once == 7
    assert verification.scores(belief) == pytest.approx(expected, rel=1e-12)
    assert len(verification._kept) == (4 if kept_values > 60 else 0)


def test_a_round_is_due_if_the_period_divides_it_and_there_are_points() -> None:
    model = load("probit")
    x, y = make_rows("probit", 3, seed=0)
    every = LoadedVerification(VerificationDocument(1, 3, x, y), model)
    assert [number for number in range(1, 10) if every.is_due(number)] == [3, 6, 9]
    assert not any(LoadedVerification(VerificationDocument(1, 1, x[:0], y[:0]), model).is_due(n) for n in range(9))


# An agent.


@pytest.fixture
def peers() -> Peers:
    return Peers()


def document(revision: int, every_rounds: int = 2, points: int = 4) -> VerificationDocument:
    x, y = make_rows("gaussian", points, seed=2)
    return VerificationDocument(revision, every_rounds, x, y)


def scored(agent: Agent) -> list[int]:
    """The numbers of the rounds with scores."""
    return [one.number for one in agent.store.history(1000) if one.scores is not None]


def verified_by(agent: Agent) -> RoundSummary | None:
    return agent.rounds.verified


async def pause(agent: Agent) -> None:
    await schedule(agent, paused=True, when_short="go")


@pytest.mark.asyncio
async def test_rounds_are_scored_by_their_number_within_the_epoch(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await pause(agent)
        await agent.rounds.step(1, 20)
        await agent.put_verification(document(1))
        await agent.rounds.step(4, 20)
        assert scored(agent) == [2, 4]
        await connect(agent, 1)
        await agent.rounds.step(3, 20)  # 1, 2 and 3 of the new epoch
        assert scored(agent) == [2, 4, 7]
        assert agent.rounds.verified is not None
        assert (agent.rounds.verified.epoch, agent.rounds.verified.round) == (1, 2)


@pytest.mark.asyncio
async def test_a_new_revision_forgets_the_scores_of_the_old_one_and_no_points_end_it(
    tmp_path: Path, peers: Peers
) -> None:
    async with living(tmp_path, peers) as agent:
        await pause(agent)
        await agent.put_verification(document(1, every_rounds=1))
        await agent.rounds.step(2, 20)
        await agent.put_verification(document(1, every_rounds=1))  # repeated: nothing happens
        told = verified_by(agent)
        for refused, error in ((document(1), RevisionTakenError), (document(0), OlderRevisionError)):
            with pytest.raises(error):
                await agent.put_verification(refused)
        assert told is not None
        assert verified_by(agent) is told
        assert (told.number, told.verification) == (2, 1)
        await agent.put_verification(document(2, every_rounds=1, points=0))
        assert verified_by(agent) is None
        await agent.rounds.step(2, 20)
        assert scored(agent) == [1, 2]


@pytest.mark.asyncio
async def test_an_agent_that_starts_again_knows_the_scores_of_its_own_revision_only(
    tmp_path: Path, peers: Peers
) -> None:
    async with living(tmp_path, peers) as agent:
        await pause(agent)
        await agent.put_verification(document(1, every_rounds=1))
        await agent.rounds.step(3, 20)
        told = agent.rounds.verified
    async with living(tmp_path, peers, load=False) as agent:
        assert agent.rounds.verified == told
        await agent.rounds.step(1, 20)
        assert scored(agent) == [1, 2, 3, 4]
        await agent.put_verification(document(2, every_rounds=3))
        await agent.rounds.step(1, 20)
    async with living(tmp_path, peers, load=False) as agent:
        assert agent.rounds.verified is None
        verification = agent.configuration.verification
        assert verification is not None
        assert verification.document == document(2, every_rounds=3)
        await agent.rounds.step(1, 20)
        assert scored(agent) == [1, 2, 3, 4, 6]


@pytest.mark.asyncio
async def test_points_need_a_model(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers, load=False) as agent:
        with pytest.raises(NoModelError):
            await agent.put_verification(document(1))
        assert "verification" not in agent.store.documents()


@pytest.mark.asyncio
async def test_verification_does_not_change_the_belief(tmp_path: Path) -> None:
    shown = []
    for name, points in (("verified", 4), ("not", 0)):
        async with living(tmp_path / name, Peers()) as agent:
            await pause(agent)
            await agent.put_verification(document(1, every_rounds=1, points=points))
            for _ in range(4):
                await observe(agent, 2)
                await agent.rounds.step(1, 20)
            assert len(scored(agent)) == points
            shown.append(agent.snapshot.state.evidence)
    verified, plain = shown
    assert verified.information.any()
    assert verified.information.tobytes() == plain.information.tobytes()
    assert verified.shift.tobytes() == plain.shift.tobytes()
