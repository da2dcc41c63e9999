"""Every agent's map on the dashboard: as data streams, at the point below the pointer, and posted to by hand."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from service.wire.palette import SEQUENTIAL
from tests.browser.dashboards import (
    Watched,
    colors,
    pixels,
    point_at,
    show_maps,
    tags,
    wait_for_pictures,
)
from tests.processes import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIDE_M = 3.0  # of the square that the model is about
LAYERS = ("expected", "variance", "entropy", "disagreement")


def choose(page: "Page", layer: str) -> None:
    """Show another layer, and wait until all maps are of it."""
    before = tags(page)
    page.click(f'#maps-tools [data-value="{layer}"]')
    wait_for_pictures(page, before)


def levels_near(page: "Page", agent: int, x: float, y: float) -> float:
    """How high on the sequential scale, from 0 to 255, a map's colours are around a point."""
    found = pixels(page, agent)
    row, column = int((1 - y / SIDE_M) * found.shape[0]), int(x / SIDE_M * found.shape[1])
    spot = found[row - 3 : row + 4, column - 3 : column + 4, :3].reshape(-1, 1, 3).astype(int)
    palette = np.frombuffer(SEQUENTIAL, np.uint8).reshape(1, 256, 3).astype(int)
    distances = np.abs(spot - palette).sum(axis=2)
    assert distances.min(axis=1).max() == 0, "only colours of the palette"
    return float(distances.argmin(axis=1).mean())


def test_maps_change_as_data_streams(page: "Page", watched: Watched) -> None:
    watched.let_run()
    show_maps(page, watched.dashboard)
    before, drawn = tags(page), [pixels(page, number) for number in range(3)]
    rounds = [agent.status()["round"] for agent in watched.agents]
    x = np.random.default_rng(1).uniform([0, 2], [1, 3], (50, 2))
    assert watched.agents[0].post(x, np.ones(50)).status_code == 200
    wait_for_pictures(page, before)
    for number, round_before in enumerate(rounds):  # all learn of what one was told
        until(lambda number=number: (pixels(page, number) != drawn[number]).mean() > 0.1)  # type: ignore[misc]
        canvas = page.locator(f'.map[data-agent="{number}"] canvas')
        until(lambda canvas=canvas, least=round_before: int(canvas.get_attribute("data-round") or 0) > least)  # type: ignore[misc]


def test_every_layer_is_drawn_and_disagreement_where_an_agent_alone_knows_something(
    page: "Page", watched: Watched
) -> None:
    watched.let_run()
    until(lambda: apart(watched, [[0.4, 0.4], [2.6, 0.4]]) < 0.01)  # they agree before one of them learns more
    watched.pause()
    loner = watched.agents[2]
    loner.post(np.random.default_rng(2).uniform(0.3, 0.5, (30, 2)), np.ones(30))
    assert loner.http.post("/v1/rounds", json={"rounds": 3, "wait_s": 60}).json()["complete"]
    show_maps(page, watched.dashboard)
    for layer in LAYERS:
        if layer != "expected":
            choose(page, layer)
        assert page.get_attribute(f'#maps-tools [data-value="{layer}"]', "aria-pressed") == "true"
        assert min(colors(page, number) for number in range(3)) > 20, layer
    others = [levels_near(page, number, 0.4, 0.4) for number in range(2)]
    assert min(others) > 30
    assert levels_near(page, 2, 0.4, 0.4) > 1.5 * max(others)
    far = [levels_near(page, number, 2.6, 0.4) for number in range(3)]
    assert max(far) < min(others) / 3


def apart(watched: Watched, points: list[list[float]]) -> float:
    """How far the agents' probabilities are apart, where they are most."""
    told = [agent.http.post("/v1/predictions", json={"x": points}).json()["probability"] for agent in watched.agents]
    return float(np.ptp(told, axis=0).max())


def test_the_values_below_the_pointer_are_the_agents_own_predictions_to_the_last_digit(
    page: "Page", watched: Watched
) -> None:
    watched.pause()
    show_maps(page, watched.dashboard)
    frame = page.locator('.map[data-agent="1"] canvas').bounding_box()
    assert frame is not None
    for share_x, share_y in ((0.31, 0.22), (0.77, 0.9)):
        at = point_at(page, frame, share_x, share_y)
        assert [at[0] / SIDE_M, 1 - at[1] / SIDE_M] == pytest.approx([share_x, share_y], abs=0.02)
        for number, agent in enumerate(watched.agents):
            told = agent.http.post("/v1/predictions", json={"x": [at]}).json()
            shown = page.locator(f'.map[data-agent="{number}"] .readout')
            names = {"probability": "expected", "latent_variance": "latent-variance", "entropy": "entropy"}
            for name, attribute in names.items():
                assert float(shown.get_attribute(f"data-{attribute}") or "nan") == told[name][0]
            assert shown.get_attribute("data-round") == str(told["round"])


def test_an_observation_is_posted_by_hand_once_after_it_was_confirmed(page: "Page", watched: Watched) -> None:
    watched.pause()
    show_maps(page, watched.dashboard)
    before, shown = [collected(agent) for agent in watched.agents], tags(page)
    page.click("#post")
    canvas = page.locator('.map[data-agent="1"] canvas')
    frame = canvas.bounding_box()
    assert frame is not None
    spot: Any = {"x": 0.8 * frame["width"], "y": 0.7 * frame["height"]}

    canvas.click(position=spot)
    dialog = page.locator("#observe-dialog")
    assert "Post to a2?" in dialog.inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    assert not dialog.is_visible()
    canvas.click(position=spot)
    dialog.get_by_label("free (0)").check()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert [collected(agent) for agent in watched.agents] == before  # nothing was sent

    canvas.click(position=spot)
    dialog.get_by_label("free (0)").check()
    dialog.get_by_role("button", name="Post it").click()
    page.locator(".toast", has_text="a2 has stored it, and applies it when its rounds go on").wait_for()
    assert not dialog.is_visible()
    assert [collected(agent) for agent in watched.agents] == [before[0], before[1] + 1, before[2]]
    newest = watched.agents[1].http.get("/v1/observations", params={"limit": 1}).json()
    assert newest["y"] == [0]
    assert newest["x"][0] == pytest.approx([0.8 * SIDE_M, 0.3 * SIDE_M], abs=0.02)

    page.click("#actions [data-action=step]")
    wait_for_pictures(page, shown)
    assert watched.agents[1].status()["observations"]["backlog"] == 0


def collected(agent: Any) -> int:
    """How many observations the agent has been given."""
    return int(agent.status()["observations"]["collected"])


def test_maps_that_have_not_changed_are_not_sent_again(page: "Page", watched: Watched) -> None:
    watched.pause()
    show_maps(page, watched.dashboard)
    for number in range(3):
        part = f"/api/agents/{number}/picture"
        with page.expect_response(lambda answer, part=part: part in answer.url and answer.status == 304):  # type: ignore[misc]
            pass
        assert colors(page, number) > 20  # it is still shown


def test_robots_and_their_newest_observations_are_drawn_where_they_are_wanted(page: "Page", watched: Watched) -> None:
    watched.pause()
    where = {"position": "2.5,0.5"}
    posted = watched.agents[0].http.post("/v1/observations", params=where, json={"x": [[2.0, 1.0]], "y": [1]})
    assert posted.status_code == 200, posted.text
    show_maps(page, watched.dashboard, observations=True)

    def color_at(x: float, y: float) -> tuple[int, ...]:
        found = pixels(page, 0)
        return tuple(found[int((1 - y / SIDE_M) * found.shape[0]), int(x / SIDE_M * found.shape[1]), :3].tolist())

    until(lambda: color_at(2.0, 1.0) == (0, 0, 0))  # a hit is a black dot
    until(lambda: color_at(2.5, 0.5) == (0x00, 0x72, 0xB2))  # the robot, in its agent's colour
    page.locator("#maps-tools input[type=checkbox]").uncheck()
    until(lambda: color_at(2.0, 1.0) != (0, 0, 0) and color_at(2.5, 0.5) != (0x00, 0x72, 0xB2))
