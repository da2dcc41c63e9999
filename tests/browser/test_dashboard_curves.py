"""The dashboard's curves, and what can be taken home from it: figures, pictures and maps."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from tests.browser.dashboards import Watched, show, wait
from tests.processes import until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

NOTE_VIOLATIONS = """window.violations = [];
addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));"""
EVAL_LATER = """() => new Promise((done) => setTimeout(() => {
    try { done(String((0, eval)("1"))); } catch (fault) { done(String(fault)); }
}))"""
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def download(page: "Page", link: "Locator") -> tuple[str, bytes]:
    """The name and the content of the file that a click gives."""
    with page.expect_download() as begun:
        link.click()
    return begun.value.suggested_filename, Path(begun.value.path()).read_bytes()


def show_curves(page: "Page", watched: Watched) -> None:
    """Open the curves and wait until there is something in them."""
    show(page, watched.dashboard, "curves")
    wait(page, """() => document.querySelector('[data-metric="delbo"]')?.dataset.points > 0""")


def plotted(page: "Page", metric: str) -> dict[str, Any]:
    """The axes and the traces that plotly has drawn."""
    found: dict[str, Any] = page.evaluate(
        """(metric) => {
            const plot = document.querySelector(`[data-metric="${metric}"]`);
            const { xaxis, yaxis } = plot._fullLayout;
            const traces = plot._fullData.map(({ name, x, y }) => ({ name, x: [...x].map(Number), y: [...y] }));
            const lines = plot.querySelectorAll('.scatterlayer .trace').length;
            return { x: xaxis.type, y: yaxis.type, traces, lines };
        }""",
        metric,
    )
    return found


def test_curves_are_drawn_linear_or_logarithmic_by_time_or_round_over_a_window(page: "Page", watched: Watched) -> None:
    watched.let_run()
    show_curves(page, watched)
    found = plotted(page, "delbo")
    assert (found["x"], found["y"], found["lines"]) == ("date", "linear", 3)
    assert [trace["name"] for trace in found["traces"]] == ["a1", "a2", "a3"]
    until(lambda: len(plotted(page, "rounds_per_s")["traces"][0]["x"]) > 0)
    unscored = page.locator("article", has=page.locator('[data-metric="verification_error"]'))
    assert "No scores yet" in unscored.inner_text()

    # What somebody has zoomed to in one scale means nothing in the other.
    page.evaluate(
        """() => Plotly.relayout(document.querySelector('[data-metric="rounds_per_s"]'), {'yaxis.range': [5, 900]})"""
    )
    page.get_by_role("button", name="Log").click()
    until(lambda: plotted(page, "rounds_per_s")["y"] == "log")
    assert (
        page.evaluate("""() => document.querySelector('[data-metric="rounds_per_s"]')._fullLayout.yaxis.range[1]""")
        < 10
    )
    assert plotted(page, "delbo")["y"] == "linear"  # it may be below 0
    page.get_by_role("button", name="Linear").click()
    until(lambda: plotted(page, "rounds_per_s")["y"] == "linear")

    page.get_by_role("button", name="By round").click()
    until(lambda: plotted(page, "delbo")["x"] == "linear")
    for trace, agent in zip(plotted(page, "delbo")["traces"], watched.agents, strict=True):
        assert trace["x"] == sorted(trace["x"])
        assert 1 <= trace["x"][0] <= trace["x"][-1] <= agent.status()["rounds_in_all"]

    with page.expect_response("**/api/curves?window_s=60") as answered:
        page.get_by_role("button", name="1 min").click()
    told = answered.value.json()
    times = [at for metric in told["metrics"] for agent in metric["agents"] for at in agent["at"]]
    assert times
    assert min(times) >= told["now"] - 60
    assert max(times) <= told["now"] + 1


def test_under_a_policy_without_inline_scripts_a_curve_is_drawn_and_downloaded_as_figures_and_as_a_picture(
    page: "Page", watched: Watched
) -> None:
    watched.pause()
    page.add_init_script(NOTE_VIOLATIONS)
    show_curves(page, watched)
    name, content = download(page, page.get_by_label("DELBO as CSV"))
    assert name == "delbo.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    for agent in watched.agents:
        told = {one["number"]: one for one in agent.http.get("/v1/history", params={"limit": 1000}).json()["rounds"]}
        mine = [row for row in rows if row["agent"] == agent.name]
        assert len(mine) > 2
        for row in mine:
            summary = told[int(row["round"])]
            assert float(row["delbo"]) == summary["delbo"]
            assert float(row["seconds_since_1970"]) == summary["finished_at"]

    name, content = download(page, page.get_by_label("DELBO as PNG"))
    assert name == "delbo.png"
    assert content.startswith(PNG_SIGNATURE)
    with Image.open(io.BytesIO(content)) as image:
        assert image.size == (1920, 1080)
        assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 10

    # All of that under a policy that lets no script run which is not a file of the server.
    policy = watched.dashboard.http.get("/").headers["content-security-policy"]
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert (rules["default-src"], rules["script-src"]) == ("'none'", "'self'")
    assert page.evaluate("() => window.violations") == []
    assert page.evaluate(EVAL_LATER).startswith("EvalError")  # so the policy is in force


def test_the_map_files_are_those_of_the_agent(page: "Page", watched: Watched) -> None:
    watched.pause()
    show(page, watched.dashboard, "network")
    agent = watched.agents[2]
    page.locator("#graph .node[data-agent='2']").click()
    number = agent.status()["round"]
    for text, form, ending in (("Picture", "png", "png"), ("Numbers", "npz", "npz"), ("Nav2", "nav2", "zip")):
        name, content = download(page, page.locator("#agent-dialog a", has_text=text))
        assert name == f"a3-round-{number}.{ending}"
        assert content == agent.http.get("/v1/map", params={"format": form}).content
