"""Moving about the dashboard with mouse and keys: all maps at once, all views, and dialogs that give the focus back."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.browser.conftest import Pages
from tests.browser.dashboards import Watched, pixels, point_at, read_out, show, show_maps
from tests.processes import until

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

# What can be clicked now, and is not hidden by an open dialog.
CLICKABLE = """() => {
    const place = document.querySelector('dialog[open]') ?? document;
    return [...place.querySelectorAll('a[href], button, input, select, canvas, [role=button], [onclick]')].filter(
        (one) => one.checkVisibility() && !one.disabled);
}"""


def frames(page: "Page") -> "list[FloatRect]":
    """Where every agent's canvas is."""
    found = [canvas.bounding_box() for canvas in page.locator(".map canvas").all()]
    return [frame for frame in found if frame is not None]


def test_dragging_one_map_moves_all_and_what_is_drawn_on_them(page: "Page", watched: Watched) -> None:
    watched.pause()
    show_maps(page, watched.dashboard)
    first, *_, last = frames(page)
    before, drawn = point_at(page, last, 0.5, 0.5), pixels(page, 2)
    page.mouse.move(first["x"] + 100, first["y"] + 100)
    page.mouse.down()
    page.mouse.move(first["x"] + 120, first["y"] + 110, steps=2)
    page.mouse.move(first["x"] + 160, first["y"] + 130, steps=2)
    page.mouse.up()
    after = point_at(page, last, 0.5, 0.5)
    unit = 3 / first["width"]
    assert after == pytest.approx([before[0] - 60 * unit, before[1] + 30 * unit], abs=0.01)

    def moved() -> bool:
        now, then = pixels(page, 2)[30:, 60:], drawn[:-30, :-60]
        return bool((np.abs(now.astype(int) - then) < 4).all(axis=2).mean() > 0.9)

    until(moved)


def test_the_wheel_zooms_all_maps_around_the_pointer(page: "Page", watched: Watched) -> None:
    watched.pause()
    show_maps(page, watched.dashboard)
    first, *_, last = frames(page)
    kept, corner = point_at(page, first, 0.25, 0.25), point_at(page, last, 0.75, 0.75)
    page.mouse.move(first["x"] + 0.25 * first["width"], first["y"] + 0.25 * first["height"])
    before = page.locator(".map canvas").last.get_attribute("data-tag")
    page.mouse.wheel(0, -460)
    until(lambda: page.locator(".map canvas").last.get_attribute("data-tag") != before)  # what is seen, in more detail
    assert point_at(page, last, 0.25, 0.25) == pytest.approx(kept, abs=0.01)
    nearer = point_at(page, last, 0.75, 0.75)
    assert np.subtract(nearer, kept) == pytest.approx(np.subtract(corner, kept) / np.exp(460 * 0.0015), abs=0.02)
    page.get_by_role("button", name="Show all of the map").click()
    assert point_at(page, first, 0.75, 0.75) == pytest.approx(corner, abs=0.01)


def test_a_finger_moves_maps_that_are_zoomed_and_two_fingers_zoom_and_move(pages: Pages, watched: Watched) -> None:
    watched.pause()
    page = pages.open(390, 844, has_touch=True)
    show_maps(page, watched.dashboard)
    page.get_by_role("button", name="Zoom in").click(click_count=2)
    canvas = page.locator(".map canvas").first
    canvas.scroll_into_view_if_needed()
    frame = canvas.bounding_box()
    assert frame is not None
    middle = frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        touches = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    def tapped(x: float, y: float) -> list[float]:
        return read_out(page, lambda: page.touchscreen.tap(x, y))

    unit = 3 / 1.5**2 / frame["width"]
    before = tapped(*middle)
    touch("touchStart", middle)
    for step in range(1, 6):
        touch("touchMove", (middle[0] - 8 * step, middle[1] - 4 * step))
    touch("touchEnd")
    moved = tapped(*middle)
    assert np.subtract(moved, before) == pytest.approx([40 * unit, -20 * unit], abs=0.01)

    begin = [(middle[0] - 20, middle[1]), (middle[0] + 20, middle[1])]
    touch("touchStart", *begin)
    for step in range(1, 6):
        touch("touchMove", (begin[0][0] - 4 * step, begin[0][1]), (begin[1][0] + 4 * step, begin[1][1]))
    touch("touchEnd")
    nearer = tapped(middle[0] + 40, middle[1])
    assert nearer[0] - moved[0] == pytest.approx(40 * unit / 2, abs=0.02)  # twice as near


def test_keys_move_and_zoom_the_maps_and_ask_at_their_middle(page: "Page", watched: Watched) -> None:
    watched.pause()
    show_maps(page, watched.dashboard)
    page.locator(".map canvas").nth(1).focus()

    def press(*keys: str) -> list[float]:
        def press_all() -> None:
            for key in (*keys, "Enter"):
                page.keyboard.press(key)

        return read_out(page, press_all)

    def near(x: float, y: float) -> Any:
        return pytest.approx([x, y], abs=1e-6)

    assert press() == near(1.5, 1.5)
    assert press("ArrowRight") == near(1.8, 1.5)
    assert press("ArrowUp") == near(1.8, 1.8)
    assert press("ArrowLeft", "ArrowDown") == near(1.5, 1.5)
    assert press("+", "ArrowRight") == near(1.5 + 0.3 / 1.3, 1.5)
    assert press("-", "ArrowLeft") == near(1.5 + 0.3 / 1.3 - 0.3, 1.5)
    assert press("+", "+", "0") == near(1.5, 1.5)
    assert press("ArrowRight") == near(1.8, 1.5)  # the width is what it was


def test_number_keys_change_the_view_but_not_while_somebody_types(page: "Page", watched: Watched) -> None:
    show(page, watched.dashboard, "network")
    for key, view in (("2", "maps"), ("3", "curves"), ("1", "network")):
        page.keyboard.press(key)
        page.locator(f"section#{view}").wait_for()
        assert page.locator("main section:visible").count() == 1
        assert page.get_attribute(f'nav [data-view="{view}"]', "aria-current") == "page"
        assert page.title().lower().startswith(view)
    page.locator("#agents").get_by_role("button", name="a1").click()
    page.keyboard.press("2")
    assert page.locator("#agent-dialog").is_visible()
    assert page.url.endswith("#network")


def test_dialogs_close_with_escape_and_give_the_focus_back(page: "Page", watched: Watched) -> None:
    watched.pause()
    show(page, watched.dashboard, "network")
    for opener in (page.locator("#agents").get_by_role("button", name="a2"), page.locator("#graph .node").nth(2)):
        opener.focus()
        page.keyboard.press("Enter")
        page.locator("#agent-dialog[open]").wait_for()
        page.keyboard.press("Escape")
        assert not page.locator("#agent-dialog").is_visible()
        assert opener.evaluate("(one) => one === document.activeElement")
    page.keyboard.press("2")
    page.locator("#post").click()
    canvas = page.locator(".map canvas").first
    canvas.focus()
    page.keyboard.press("Enter")
    page.locator("#observe-dialog[open]").wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("#observe-dialog").is_visible()
    assert canvas.evaluate("(one) => one === document.activeElement")


def test_all_that_can_be_clicked_is_reached_with_tab(page: "Page", watched: Watched) -> None:
    watched.pause()
    show_maps(page, watched.dashboard)
    for view in ("network", "maps", "curves"):
        page.keyboard.press(str(1 + ("network", "maps", "curves").index(view)))
        page.locator(f"section#{view} .card").first.wait_for()
        assert unreached(page) == []
    page.keyboard.press("1")
    page.locator("#graph .node").first.click()
    assert unreached(page) == []
    assert page.locator("#agent-dialog").is_visible()


def unreached(page: "Page") -> list[str]:
    """What the Tab key does not come by."""
    count = page.evaluate(
        f"""() => {{
            window.reached = new Set();
            addEventListener('focusin', (event) => window.reached.add(event.target));
            if (!document.querySelector('dialog[open]')) document.activeElement.blur();
            return ({CLICKABLE})().length;
        }}"""
    )
    assert count > 5
    for _ in range(count + 4):
        page.keyboard.press("Tab")
    return list(
        page.evaluate(f"() => ({CLICKABLE})().filter((one) => !window.reached.has(one)).map((one) => one.outerHTML)")
    )
