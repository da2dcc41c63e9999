"""`POST /v1/predictions`, `GET /v1/belief`, and a map's numbers: what the mathematics says, of one round."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import pytest_asyncio

from service.agent import model as agent_model
from service.agent.model import LoadedModel
from service.api import predictions
from service.wire.parameters import MEDIA_TYPE
from service.wire.points import MOST_POINTS, points_to_msgpack
from tests.api.asked import JSON, arrays_of, as_json, check_map, split
from tests.api.every_model import FAMILIES, FEATURES, LIKELIHOODS, Direct, check_layers, model_of, rows_for
from tests.api.inside import PATIENCE_S, Inside, inside
from tests.processes import problem

SEVERAL = 12  # rounds
POINTS = np.random.default_rng(2).uniform(-1, 3, (300, 2))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.asyncio
async def test_every_kind_of_model_answers_as_the_mathematics_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, features: str, likelihood: str
) -> None:
    monkeypatch.setattr(agent_model, "_LOCAL_POINTS", 128)  # so that the points are taken in parts
    monkeypatch.setattr(agent_model, "_DENSE_POINT_VALUES", 1)
    monkeypatch.setattr(agent_model, "_FEWEST_ROWS", 100)
    document = model_of(features, family, likelihood)
    async with inside(tmp_path, document) as served:
        await served.learn(*rows_for(likelihood))
        direct = Direct(document, await served.parameters())
        await check_predictions(served, direct)
        await check_belief(served, direct)
        if likelihood == "vector":
            assert problem(await served.http.get("/v1/map?format=npz")) == (409, "no-map")
        else:
            assert check_map((await served.get("/v1/map?format=npz&resolution=0.09")).content, direct) == (0, 1)


async def check_predictions(served: Inside, direct: Direct) -> None:
    """In both languages, asked and answered."""
    expected = direct.expected(POINTS)
    bodies = {JSON: as_json(POINTS), MEDIA_TYPE: points_to_msgpack(POINTS)}
    for content_type, accept in itertools.product(bodies, bodies):
        answer = await served.ask(bodies[content_type], content_type, accept)
        assert answer.status_code == 200, answer.text
        document = answer.json() if accept == JSON else arrays_of(answer)
        assert document["model_id"] == direct.spec.model_id
        name, found = split(document)
        assert name == (0, 1)
        check_layers(found, expected)


async def check_belief(served: Inside, direct: Direct) -> None:
    expected = {"mean": direct.belief.mean, "variance": direct.belief.variance}
    shown = (await served.get("/v1/belief?full=true")).json()
    packed = arrays_of(await served.get("/v1/belief?full=true", accept=MEDIA_TYPE))
    for found in (shown, packed):
        assert split(found)[0] == (0, 1)
        check_layers({name: found[name] for name in expected}, expected)


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.asyncio
async def test_a_model_of_another_dimension_is_asked_alike(tmp_path: Path, dimension: int) -> None:
    lattice = {
        "kind": "lattice",
        "spacing": 0.5,
        "lengthscale": 0.4,
        "lower": [0] * dimension,
        "upper": [1] * dimension,
    }
    document = model_of() | {"features": lattice}
    x = np.random.default_rng(3).uniform(0, 1, (20, dimension))
    async with inside(tmp_path, document) as served:
        await served.learn(x, (x[:, 0] > 0.5).astype(np.float64))
        answer = await served.ask(as_json(x), JSON)
        check_layers(split(answer.json())[1], Direct(document, await served.parameters()).expected(x))
        assert problem(await served.http.get("/v1/map")) == (409, "no-map")


# While rounds run.


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.asyncio
async def test_every_answer_is_of_the_round_that_it_names_while_rounds_run(tmp_path: Path, family: str) -> None:
    document = model_of(family=family)
    async with inside(tmp_path, document) as served:
        await served.put("neighbors", {"epoch": 1, "own_weight": 1.0, "history": 10_000})
        x, y = rows_for("probit")
        body = {"x": x.tolist(), "y": y.tolist()}
        assert (await served.http.post("/v1/observations", json=body)).status_code == 200
        replay = {"source": "replay", "observations_per_round": 1, "period_s": 0}
        await served.put("schedule", {"revision": 1, **replay})
        names: set[tuple[int, int]] = set()
        async with asyncio.timeout(PATIENCE_S):
            while len(names) < SEVERAL:
                names.update(await check_all(served, document, await ask_all(served)))
        assert served.agent.rounds.fault is None
    assert {epoch for epoch, _ in names} == {1}


Answers = tuple[httpx2.Response, httpx2.Response, httpx2.Response]


async def ask_all(served: Inside) -> Answers:
    """Predictions, belief and map at once."""
    return await asyncio.gather(
        served.ask(as_json(POINTS), JSON),
        served.get("/v1/belief?full=true"),
        served.get("/v1/map?format=npz&resolution=0.2"),
    )


async def check_all(served: Inside, document: dict[str, Any], answers: Answers) -> list[tuple[int, int]]:
    """Each answer is what the parameters of its round give."""
    predicted, belief, mapped = answers
    name, found = split(predicted.json())
    check_layers(found, (await direct_at(served, document, name)).expected(POINTS))
    believed, told = split(belief.json())
    of_belief = (await direct_at(served, document, believed)).belief
    check_layers(
        {key: told[key] for key in ("mean", "variance")}, {"mean": of_belief.mean, "variance": of_belief.variance}
    )
    drawn = int(mapped.headers["delbo-epoch"]), int(mapped.headers["delbo-round"])
    assert check_map(mapped.content, await direct_at(served, document, drawn)) == drawn
    return [name, believed, drawn]


async def direct_at(served: Inside, document: dict[str, Any], name: tuple[int, int]) -> Direct:
    message = await served.parameters(epoch=name[0], round=name[1])
    assert message.header.name == name
    return Direct(document, message)


@pytest.mark.asyncio
async def test_rounds_and_status_go_on_while_a_prediction_is_computed_of_the_round_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release, threads = threading.Event(), threading.Event(), []
    real = LoadedModel.predict

    def slow(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        begun.set()
        assert release.wait(PATIENCE_S)
        return real(*arguments)

    document = model_of()
    async with inside(tmp_path, document) as served:
        await served.learn(*rows_for("probit"))
        monkeypatch.setattr(LoadedModel, "predict", slow)
        asked = asyncio.create_task(served.ask(as_json(POINTS), JSON))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        await served.put("neighbors", {"epoch": 1, "own_weight": 1.0})
        await served.put("schedule", {"revision": 2, "when_short": "go", "forgetting": 0.5, "paused": True})
        before = await served.parameters()
        await served.step(3)
        assert (await served.get("/v1/status")).json()["round"] == 3
        assert not asked.done()
        release.set()
        name, found = split((await asked).json())
        assert name == (0, 1)
        check_layers(found, Direct(document, before).expected(POINTS))  # epoch 1 began with the same parameters
    assert threads[0].name.startswith("readings")


# What is refused.

ONE = points_to_msgpack(np.array([[0.5, 1.0]]))
REFUSED: dict[str, tuple[str, bytes, tuple[int, str]]] = {
    "one column too few": (JSON, b'{"x": [[1], [2]]}', (422, "wrong-dimension")),
    "one column too many": (MEDIA_TYPE, points_to_msgpack(np.ones((2, 3))), (422, "wrong-dimension")),
    "rows of different lengths": (JSON, b'{"x": [[1, 2], [3]]}', (422, "invalid-points")),
    "a point of three dimensions": (JSON, b'{"x": [[[1, 2]]]}', (422, "invalid-points")),
    "not a number": (MEDIA_TYPE, points_to_msgpack(np.array([[0.5, np.nan]])), (422, "not-finite")),
    "infinite": (MEDIA_TYPE, points_to_msgpack(np.array([[np.inf, 0.0]])), (422, "not-finite")),
    "NaN is no JSON": (JSON, b'{"x": [[0.5, NaN]]}', (400, "invalid-json")),
    "no points": (JSON, b'{"x": []}', (422, "invalid-points")),
    "no rows": (MEDIA_TYPE, points_to_msgpack(np.empty((0, 2))), (422, "invalid-points")),
    "words": (JSON, b'{"x": [["a", "b"]]}', (422, "invalid-points")),
    "nothing": (JSON, b"", (400, "invalid-json")),
    "no x": (JSON, b"{}", (422, "invalid-points")),
    "more than x": (JSON, b'{"x": [[1, 2]], "y": [1]}', (422, "invalid-points")),
    "JSON that is called msgpack": (MEDIA_TYPE, b'{"x": [[1, 2]]}', (422, "invalid-points")),
    "msgpack that is called JSON": (JSON, ONE, (400, "invalid-json")),
    "half of it": (MEDIA_TYPE, ONE[:-3], (400, "invalid-msgpack")),
    "text": ("text/plain", b"0.5 1.0", (415, "unsupported-media-type")),
    "too many": (MEDIA_TYPE, points_to_msgpack(np.ones((MOST_POINTS + 1, 2))), (413, "too-many-points")),
    "too many, as JSON": (JSON, b'{"x": [' + b"[0,0]," * MOST_POINTS + b"[0,0]]}", (413, "too-many-points")),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def untaught(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inside]:
    """An agent that has a model and has seen nothing, for all that changes nothing."""
    async with inside(tmp_path_factory.mktemp("untaught"), model_of()) as served:
        yield served


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.asyncio(loop_scope="module")
async def test_points_that_do_not_fit_are_refused(untaught: Inside, what: str) -> None:
    content_type, content, expected = REFUSED[what]
    assert problem(await untaught.ask(content, content_type)) == expected


@pytest.mark.asyncio(loop_scope="module")
async def test_as_many_points_as_may_be_are_answered(untaught: Inside) -> None:
    answer = await untaught.ask(points_to_msgpack(np.ones((MOST_POINTS, 2))), accept=MEDIA_TYPE)
    assert arrays_of(answer)["probability"].shape == (MOST_POINTS,)


@pytest.mark.asyncio(loop_scope="module")
async def test_many_points_are_asked_and_answered_alike_in_both_languages(untaught: Inside) -> None:
    x = np.random.default_rng(4).uniform(-1, 3, (30_000, 2)).round(4)  # a megabyte of JSON, which is taken in parts
    packed = arrays_of(await untaught.ask(points_to_msgpack(x), accept=MEDIA_TYPE))
    for listed in ((await untaught.ask(as_json(x), JSON)).json(), (await untaught.ask(points_to_msgpack(x))).json()):
        for name, values in split(packed)[1].items():
            np.testing.assert_array_equal(listed[name], values)  # to the last bit


@pytest.mark.asyncio(loop_scope="module")
async def test_one_point_may_be_a_plain_list(untaught: Inside) -> None:
    alone = (await untaught.ask(b'{"x": [0.5, 1]}', JSON)).json()
    assert alone == (await untaught.ask(b' {"x" : [ [0.5, 1] ] } ', JSON)).json()
    assert [len(alone[name]) for name in ("probability", "variance", "entropy")] == [1, 1, 1]


@pytest.mark.asyncio
async def test_without_a_model_nothing_can_be_asked(tmp_path: Path) -> None:
    async with inside(tmp_path) as served:
        assert problem(await served.ask(as_json(POINTS), JSON)) == (409, "no-model")
        for path in ("belief", "belief?full=true", "map", "map?format=npz"):
            assert problem(await served.http.get(f"/v1/{path}")) == (409, "no-model")


@pytest.mark.asyncio
async def test_more_points_than_a_large_full_model_can_do_in_time_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = 21
    monkeypatch.setattr(predictions, "_MOST_WORK", 5.0 * parameters**2)
    async with inside(tmp_path / "full", model_of(family="full")) as served:
        assert served.agent.model.prior.dimension == parameters
        assert (await served.ask(as_json(POINTS[:5]), JSON)).status_code == 200
        refused = await served.ask(as_json(POINTS[:6]), JSON)
        assert problem(refused) == (413, "too-many-points")
        assert "send 5 at a time" in refused.json()["detail"]
    async with inside(tmp_path / "diagonal", model_of()) as served:
        assert (await served.ask(as_json(POINTS[:6]), JSON)).status_code == 200


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [{"mean": 1e308, "information": 1.0}, {"mean": 0.0, "information": 1e-308}])
@pytest.mark.parametrize("likelihood", ["gaussian", "vector", "probit"])
@pytest.mark.asyncio
async def test_numbers_beyond_all_bounds_are_a_problem_and_never_part_of_an_answer(
    tmp_path: Path, family: str, prior: dict[str, float], likelihood: str
) -> None:
    async with inside(tmp_path, model_of("lattice", family, likelihood) | {"prior": prior}) as served:
        for accept in (JSON, MEDIA_TYPE):
            assert problem(await served.ask(b'{"x": [[0.5, 0.5]]}', JSON, accept)) == (422, "numerical")
        if likelihood != "vector":
            layer = "latent_mean" if prior["mean"] else "latent_variance"
            for kind in ("png", "npz"):
                refused = await served.http.get(f"/v1/map?layer={layer}&format={kind}&resolution=0.25")
                assert problem(refused) == (422, "numerical")
