"""`GET /v1/map`: where its pixels lie, what its colours and numbers mean, and when it need not be sent again."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from service.inference.arrays import FloatArray
from service.inference.raster import Grid
from service.wire.palette import DIVERGING, SEQUENTIAL
from tests.api.every_model import LIKELIHOODS, Direct, layers_of, model_of, rows_for
from tests.api.inside import inside
from tests.processes import AgentProcess, agent_factory, codec_of, problem

LAYERS = ("probability", "variance", "entropy", "latent_mean", "latent_variance")
MODEL = model_of()
BOUNDS = (0.0, 0.0, 2.0, 1.5)  # the lattice's


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that has learned that y > 0.8 is label 1."""
    for start in agent_factory(tmp_path_factory.mktemp("map")):
        agent = start("a1")
        agent.put("model", {"revision": 1, "model": MODEL})
        x, _ = rows_for("probit")
        assert agent.post(x, x[:, 1] > 0.8).status_code == 200
        agent.put("schedule", {"revision": 1, "observations_per_round": 10, "when_short": "go", "paused": True})
        run_rounds(agent, 6)
        yield agent


def run_rounds(agent: AgentProcess, rounds: int = 1) -> None:
    assert agent.http.post("/v1/rounds", json={"rounds": rounds}).json()["complete"]


def get(agent: AgentProcess, **query: Any) -> httpx2.Response:
    answer = agent.http.get("/v1/map", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def numbers(answer: httpx2.Response) -> dict[str, npt.NDArray[Any]]:
    with np.load(io.BytesIO(answer.content), allow_pickle=False) as read:
        return dict(read)


def picture(answer: httpx2.Response) -> tuple[npt.NDArray[np.uint8], dict[Any, Any], list[int] | None]:
    """The palette's indices with row 0 at the lowest y, the notes, and the palette."""
    with Image.open(io.BytesIO(answer.content)) as image:
        assert (image.format, image.mode) == ("PNG", "P")
        return np.asarray(image)[::-1], image.info, image.getpalette()


def expected(agent: AgentProcess, grid: Grid) -> dict[str, FloatArray]:
    return layers_of(Direct(MODEL, agent.message(codec_of(MODEL))).raster(grid))


# Where the pixels lie.


def test_by_default_a_map_shows_all_that_the_model_is_about_in_300_pixels_of_the_first_layer(
    agent: AgentProcess,
) -> None:
    answer = get(agent)
    assert answer.headers["content-type"] == "image/png"
    indices, notes, _ = picture(answer)
    assert indices.shape == (225, 300)
    told = {"layer": "probability", "low": "0.0", "high": "1.0", "origin": "0.0 0.0", "resolution": repr(2 / 300)}
    epoch, number = answer.headers["delbo-epoch"], answer.headers["delbo-round"]
    assert notes == told | {"epoch": epoch, "round": number}
    status = agent.status()
    assert (epoch, number) == (str(status["epoch"]), str(status["round"]))


def test_bounds_and_resolution_are_taken_as_given_with_the_corner_exact(agent: AgentProcess) -> None:
    found = numbers(get(agent, format="npz", bounds="-0.3,0.1,1.02,2.4", resolution=0.17))
    grid = Grid.over((-0.3, 0.1, 1.02, 2.4), 0.17)
    np.testing.assert_array_equal(found["x"], grid.x_axis)
    np.testing.assert_array_equal(found["y"], grid.y_axis)
    assert found["x"][0] == -0.3 + 0.17 / 2
    assert (found["x"][-1] + 0.085 >= 1.02, found["y"][-1] + 0.085 >= 2.4) == (True, True)
    assert (len(found["x"]), len(found["y"])) == (8, 14)
    assert found["probability"].shape == (14, 8)


def test_either_of_bounds_and_resolution_may_be_given_alone(agent: AgentProcess) -> None:
    assert numbers(get(agent, format="npz", resolution=0.5))["entropy"].shape == (3, 4)
    narrow = numbers(get(agent, format="npz", bounds="0,0,1,4"))
    assert narrow["entropy"].shape == (300, 75)
    assert narrow["x"][0] == pytest.approx(4 / 300 / 2, rel=1e-15)


# What it shows.


def test_numbers_have_every_layer_or_the_one_that_is_asked_for(agent: AgentProcess) -> None:
    values = expected(agent, Grid.over(BOUNDS, 0.1))
    answer = get(agent, format="npz", resolution=0.1)
    assert answer.headers["content-type"] == "application/x-npz"
    assert answer.headers["content-disposition"] == 'attachment; filename="map.npz"'
    whole = numbers(answer)
    assert set(whole) == {"x", "y", "epoch", "round", *LAYERS}
    for layer in LAYERS:
        alone = numbers(get(agent, format="npz", layer=layer, resolution=0.1))
        assert set(alone) == {"x", "y", "epoch", "round", layer}
        np.testing.assert_array_equal(alone[layer], whole[layer])
        np.testing.assert_allclose(whole[layer], values[layer], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(
        numbers(get(agent, format="npz", layer="mean", resolution=0.1))["mean"], whole["probability"]
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_colours_follow_the_numbers_from_low_to_high(agent: AgentProcess, layer: str) -> None:
    values = expected(agent, Grid.over(BOUNDS, 0.1))[layer]
    indices, notes, palette = picture(get(agent, layer=layer, resolution=0.1))
    probability = layer == "probability"
    low, high = (0.0, 1.0) if probability else (values.min(), values.max())
    assert (float(notes["low"]), float(notes["high"])) == pytest.approx((low, high), rel=1e-12)
    assert notes["layer"] == layer
    assert palette == list(DIVERGING if probability else SEQUENTIAL)
    # Half a colour, by rounding to the nearest.
    np.testing.assert_allclose(indices, (values - low) / (high - low) * 255, rtol=0, atol=0.5 + 1e-9)
    if not probability:
        assert (indices.min(), indices.max()) == (0, 255)


def test_low_and_high_say_what_the_first_and_the_last_colour_stand_for(agent: AgentProcess) -> None:
    values = expected(agent, Grid.over(BOUNDS, 0.1))["latent_mean"]
    indices, notes, _ = picture(get(agent, layer="latent_mean", resolution=0.1, low=-0.5, high=0.25))
    assert (notes["low"], notes["high"]) == ("-0.5", "0.25")
    assert (indices[values <= -0.5] == 0).all()
    assert (indices[values >= 0.25] == 255).all()
    np.testing.assert_allclose(indices, (values.clip(-0.5, 0.25) + 0.5) / 0.75 * 255, rtol=0, atol=0.5 + 1e-9)


@pytest.mark.parametrize(("layer", "query"), [("probability", {"high": -1.0}), ("latent_mean", {"low": 1e6})])
def test_the_notes_tell_the_range_that_was_used_though_no_value_lies_in_it(
    agent: AgentProcess, layer: str, query: dict[str, float]
) -> None:
    indices, notes, _ = picture(get(agent, layer=layer, resolution=0.5, **query))
    assert float(notes["low"]) == float(notes["high"]) == next(iter(query.values()))
    assert (indices == 0).all()


def test_the_top_row_of_a_picture_is_the_highest_y(agent: AgentProcess) -> None:
    indices, _, _ = picture(get(agent, resolution=0.1))  # turned over, so that row 0 is the lowest
    assert indices[0].max() < 128 < indices[-1].min()


@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if name != "vector"])
@pytest.mark.asyncio
async def test_without_a_layer_labels_show_their_probability_and_all_else_the_mean(
    tmp_path: Path, likelihood: str
) -> None:
    async with inside(tmp_path, model_of(likelihood=likelihood)) as served:
        _, notes, _ = picture(await served.get("/v1/map?resolution=0.5"))
        labels = likelihood in ("probit", "logistic")
        assert notes["layer"] == ("probability" if labels else "mean")
        if not labels:
            for query in ("layer=probability", "format=nav2", "format=npz&layer=probability"):
                assert problem(await served.http.get(f"/v1/map?{query}")) == (409, "no-map")


# When it need not be sent again.


def conditional(agent: AgentProcess, known: str, **query: Any) -> httpx2.Response:
    return agent.http.get("/v1/map", params=query, headers={"if-none-match": known})


def test_a_map_that_is_known_is_not_sent_again_until_the_next_round(agent: AgentProcess) -> None:
    query = {"resolution": 0.25}
    first = get(agent, **query)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "no-cache"
    for known in (tag, f"W/{tag}", f'"other", {tag}', f'W/"a",W/{tag} , "b"', "*"):
        again = conditional(agent, known, **query)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), known
        for name in ("delbo-epoch", "delbo-round", "cache-control"):
            assert again.headers[name] == first.headers[name]
    for unknown in ('"other"', tag.strip('"'), '"*"', ""):
        assert conditional(agent, unknown, **query).content == first.content
    run_rounds(agent)
    after = conditional(agent, tag, **query)
    assert after.status_code == 200
    assert after.headers["etag"] != tag
    assert int(after.headers["delbo-round"]) == int(first.headers["delbo-round"]) + 1


def test_the_first_round_of_another_epoch_is_another_map(agent: AgentProcess) -> None:
    tag = get(agent, resolution=0.25).headers["etag"]
    for epoch in (1, 2):
        agent.put("neighbors", {"epoch": epoch, "own_weight": 1.0})
        begun = conditional(agent, tag, resolution=0.25)
        assert (begun.status_code, begun.headers["delbo-epoch"], begun.headers["delbo-round"]) == (200, str(epoch), "0")
        tag = begun.headers["etag"]


def test_every_map_of_a_round_has_a_tag_of_its_own(agent: AgentProcess) -> None:
    queries: list[dict[str, Any]] = [
        {},
        {"resolution": 0.25},
        {"resolution": 0.5},
        {"resolution": 0.5, "bounds": "0,0,1,1"},
        {"resolution": 0.5, "layer": "entropy"},
        {"resolution": 0.5, "layer": "entropy", "low": 0},
        {"resolution": 0.5, "layer": "entropy", "high": 1},
        {"resolution": 0.5, "format": "npz"},
        {"resolution": 0.5, "format": "nav2"},
        {"resolution": 0.5, "format": "nav2", "mode": "raw"},
        {"resolution": 0.5, "format": "nav2", "free_thresh": 0.2},
        {"resolution": 0.5, "format": "nav2", "occupied_thresh": 0.7},
    ]
    tags = [get(agent, **query).headers["etag"] for query in queries]
    assert len(set(tags)) == len(queries)
    assert tags == [get(agent, **query).headers["etag"] for query in queries]
    assert conditional(agent, tags[1], resolution=0.5).status_code == 200


# What is refused.

WRONG = [
    "colour=red",
    "format=gif",
    "layer=colour",
    "bounds=1,2,3",
    "bounds=1,2,3,4,5",
    "bounds=a,b,c,d",
    "bounds=",
    "bounds=2,0,1,1",
    "bounds=0,0,0,0",
    "bounds=nan,0,1,1",
    "bounds=-inf,0,inf,1",
    "bounds=-1e308,0,1e308,1",
    "bounds=0,0,5e-324,5e-324",
    "bounds=1e17,0,1.0000000000000002e17,1",
    "bounds=" + "0" * 300,
    "resolution=0",
    "resolution=-1",
    "resolution=nan",
    "resolution=inf",
    "resolution=0.0001",  # 300 million pixels
    "bounds=0,0,20001,1&resolution=1",
    "low=1&high=0",
    "low=1&high=1",
    "low=nan",
    "format=nav2&layer=entropy",
    "format=nav2&occupied_thresh=0.2",
    "format=nav2&free_thresh=2",
    "mode=gray",
]


@pytest.mark.parametrize("query", WRONG)
def test_a_query_that_makes_no_map_is_refused_whatever_the_client_has(agent: AgentProcess, query: str) -> None:
    for headers in ({}, {"if-none-match": "*"}):
        assert problem(agent.http.get(f"/v1/map?{query}", headers=headers)) == (400, "invalid-query")


@pytest.mark.asyncio
async def test_a_map_that_would_take_a_large_full_model_too_long_is_refused(tmp_path: Path) -> None:
    lattice = {"kind": "lattice", "spacing": 1.0, "lengthscale": 0.9, "lower": [0, 0], "upper": [21, 21]}
    async with inside(tmp_path, model_of(family="full") | {"features": lattice}) as served:
        assert (await served.http.get("/v1/map?resolution=0.5")).status_code == 200
        refused = await served.http.get("/v1/map?resolution=0.0105")
        assert problem(refused) == (400, "invalid-query")
        assert "2000 x 2000 pixels would take this model too long" in refused.json()["detail"]
