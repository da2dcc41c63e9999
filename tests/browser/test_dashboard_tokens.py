"""Agents that ask for tokens, and are called what they like: no token leaves the server, and names are text."""

from typing import TYPE_CHECKING

from service.wire.tokens import read_tokens
from tests.browser.acting import check_only_reading
from tests.browser.dashboards import ODD_NAMES, DashboardProcess, OddlyNamed, set_paused, show, show_maps, wait
from tests.processes import until

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response


def test_who_has_only_the_token_for_reading_finds_no_buttons_and_is_refused(
    page: "Page", oddly_named: OddlyNamed
) -> None:
    check_only_reading(page, oddly_named.agents, oddly_named.reader)


def test_no_token_reaches_the_browser(page: "Page", oddly_named: OddlyNamed) -> None:
    tokens = [token for of_role in read_tokens(oddly_named.tokens).values() for token in of_role]
    assert len(tokens) == 4
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    set_paused(oddly_named.agents, True)
    show_maps(page, oddly_named.dashboard, observations=True)
    page.locator(".map canvas").first.hover()
    wait(page, "() => document.querySelector('.readout').dataset.at")
    page.click("#actions [data-action=step]")
    page.locator(".toast", has_text="ran a round").wait_for()
    page.keyboard.press("3")
    wait(page, """() => document.querySelector('[data-metric="delbo"]')?.dataset.points > 0""")
    seen = [page.content(), page.evaluate("() => JSON.stringify(localStorage) + document.cookie")]
    paths = set()
    for answer in answers:
        request = answer.request
        paths.add(request.url.removeprefix(oddly_named.dashboard.url).partition("?")[0])
        seen += [str(request.all_headers()), str(answer.all_headers()), request.url, request.post_data or ""]
        if not request.url.endswith("/api/events"):  # it does not end
            seen.append(content_of(answer, oddly_named.dashboard).decode("latin-1"))
    with oddly_named.dashboard.http.stream("GET", "/api/events") as events:
        lines = events.iter_lines()
        seen += [until(lambda: next(line for line in lines if line.startswith("data:")))]
    assert {"/", "/api/events", "/api/recent", "/api/predictions", "/api/curves", "/api/actions/step"} <= paths
    for text in seen:
        assert not any(token in text for token in tokens)
        assert "bearer" not in text.lower()


def content_of(answer: "Response", dashboard: DashboardProcess) -> bytes:
    """What an answer brought; where the browser has not kept it, as of a picture that was the same, asked for again."""
    from playwright.sync_api import Error

    try:
        return answer.body()
    except Error:
        assert answer.request.method == "GET"
        return dashboard.http.get(answer.url).content


def test_names_with_html_are_text_in_every_view_dialog_toast_and_file(page: "Page", oddly_named: OddlyNamed) -> None:
    popped: list[str] = []
    page.on("dialog", lambda dialog: popped.append(dialog.message))
    set_paused(oddly_named.agents, False)
    show(page, oddly_named.dashboard, "network")
    until(lambda: tuple(page.locator("#agents .link").all_text_contents()) == ODD_NAMES)
    for node, name in zip(page.locator("#graph .node").all(), ODD_NAMES, strict=True):
        until(lambda node=node, name=name: (node.get_attribute("aria-label") or "").startswith(f"{name}: "))  # type: ignore[misc]
        assert node.locator(".label").text_content() == f"{name[:13]}…"
    first, second = ODD_NAMES
    titles = [title.split(": ")[0] for title in page.locator("#graph .edge title").all_text_contents()]
    assert sorted(titles) == sorted([f"{first} takes from {second}", f"{second} takes from {first}"])

    page.locator("#agents .link").first.click()
    dialog = page.locator("#agent-dialog")
    assert dialog.locator("h2").text_content() == first
    assert dialog.locator("td.name").all_text_contents() == [second]
    dialog.get_by_role("button", name="Pause").click()
    page.locator(".toast", has_text="paused").wait_for()
    assert page.locator(".toast").text_content() == f"{first}: paused"
    with page.expect_download() as begun:
        dialog.locator("a", has_text="Picture").click()
    number = oddly_named.agents[0].status()["round"]
    assert begun.value.suggested_filename == f"img-src-x-onerror-alert-1-round-{number}.png"
    page.keyboard.press("Escape")

    page.keyboard.press("2")
    until(lambda: tuple(page.locator(".map .name").all_text_contents()) == ODD_NAMES)
    page.click("#post")
    page.locator(".map canvas[data-tag]").nth(1).click()
    assert page.locator("#observe-dialog h2").text_content() == f"Post to {second}?"
    page.keyboard.press("Escape")

    page.keyboard.press("3")
    wait(page, """() => document.querySelector('[data-metric="delbo"] .scatterlayer .trace')""")
    assert tuple(page.locator(".dots li").all_text_contents()) == ODD_NAMES
    assert hovered_names(page) == set(ODD_NAMES)

    assert popped == []
    assert page.locator('img[src=x], b:has-text("it\'s")').count() == 0


def hovered_names(page: "Page") -> set[str]:
    """Point at the curves, from left to right: plotly writes names beside values."""
    page.get_by_role("button", name="By round").click()
    wait(page, """() => document.querySelector('[data-metric="delbo"]')._fullLayout.xaxis.type === 'linear'""")
    frame = page.locator('[data-metric="delbo"]').bounding_box()
    assert frame is not None
    found: set[str] = set()
    for step in range(2, 9):
        page.mouse.move(frame["x"] + step / 10 * frame["width"], frame["y"] + frame["height"] / 2, steps=2)
        wait(page, "() => document.querySelector('.hoverlayer .legendtext')")
        found |= {text.rpartition(" : ")[0] for text in page.locator(".hoverlayer .legendtext").all_text_contents()}
    return found
