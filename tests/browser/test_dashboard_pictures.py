"""How the dashboard looks, on a desk and on a phone, light and dark; `make screenshots` keeps pictures of it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest
from PIL import Image

from client.network.plan import load_plan
from tests.browser.conftest import Pages
from tests.browser.dashboards import Watched, colors, show, wait
from tests.browser.layout import layout_faults
from tests.conftest import Delbo, DemoRun
from tests.network.runs import Run
from tests.processes import ROOT, until

KEEPING = os.environ.get("DELBO_SCREENSHOTS") == "1"
SHARE_POSTED = 0.4  # when pictures for the documentation are taken: robots are under way
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
VIEWS = ("network", "maps", "curves")
KEPT = {
    "maps-desktop-light",
    "network-desktop-light",
    "curves-desktop-light",
    "maps-desktop-dark",
    "maps-phone-light",
    "network-phone-dark",
    "curves-phone-light",
}

DRAWN = {
    "network": "() => document.querySelectorAll('#graph .node').length === 4 && document.querySelector('#graph .edge')",
    "maps": "() => document.querySelectorAll('.map canvas[data-tag]').length === 4",
    "curves": """() => document.querySelector('[data-metric="consensus_error"]')?.dataset.points > 0
        && document.querySelectorAll('.plot .scatterlayer').length === 6""",
}
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture
def demo_url(request: pytest.FixtureRequest, delbo: Delbo, tmp_path: Path) -> Iterator[str]:
    """The dashboard of the tests' demo, which has ended; of a demo under way, where pictures are kept."""
    if not KEEPING:
        demo: DemoRun = request.getfixturevalue("demo")
        yield demo.dashboard
        return
    folder = tmp_path / "runs" / "demo"
    try:
        with Run(tmp_path, "demo", "--keep", "--out", folder) as run:
            url = until(lambda: re.search(r"watch them on (\S+)", run.text(1)))
            assert url is not None
            total = sum(len(part) for part in load_plan(folder / "network.yaml").parts)
            until(lambda: learned(url[1]) > SHARE_POSTED * total)
            yield url[1]
    finally:
        ended = delbo("down", folder / "network.yaml", "--runs", folder.parent)
        assert ended.returncode == 0, ended.stderr


def learned(url: str) -> int:
    """How many observations the agents have learned from."""
    agents = httpx2.get(f"{url}/api/state", trust_env=False).json()["agents"]
    return sum(agent.get("observations") or 0 for agent in agents)


def test_every_view_fits_a_desk_and_a_phone_light_and_dark(demo_url: str, pages: Pages, tmp_path: Path) -> None:
    folder = ROOT / "docs" / "images" if KEEPING else tmp_path
    taken = {}
    for size, (width, height) in SIZES.items():
        page = pages.open(width, height, reduced_motion="reduce")
        for view in VIEWS:
            page.goto(f"{demo_url}/#{view}")
            wait(page, DRAWN[view])
            for theme in ("light", "dark"):
                name = f"{view}-{size}-{theme}"
                if KEEPING and name not in KEPT:
                    continue
                if page.locator("#theme").text_content() == theme.capitalize():  # what it would change to
                    page.click("#theme")
                    page.mouse.move(0, 0)  # or the button looks pointed at
                    page.evaluate(TWO_FRAMES)
                file = folder / f"dashboard-{name}.png"
                page.screenshot(path=file)
                taken[file] = (width, height)
            if view == "maps":
                assert min(colors(page, number) for number in range(4)) > 50
            assert layout_faults(page) == []
    for file, extent in taken.items():  # the demo does not wait
        check(file, *extent)
        if KEEPING:
            make_small(file)


def check(file: Path, width: int, height: int) -> None:
    """A picture must have the size of the page, and show something."""
    with Image.open(file) as image:
        assert image.size == (width, height)
        assert len(image.convert("RGB").getcolors(width * height) or ()) > 50
        ground = np.asarray(image.convert("L"))[-1, -1]
        assert ground > 200 if file.stem.endswith("light") else ground < 50
        assert np.ptp(np.asarray(image.convert("L"))) > 150  # ink on paper, or the other way round


def make_small(file: Path) -> None:
    """Write it with 64 steps of red, green and blue: nobody sees the difference, and agents keep their own colours."""
    with Image.open(file) as image:
        colors = np.asarray(image.convert("RGB")).astype(int)
    steps = np.minimum((colors + 2) // 4 * 4, 255).astype(np.uint8)
    Image.fromarray(steps).save(file, optimize=True)


def test_the_theme_is_the_systems_until_another_one_is_chosen_which_is_remembered(
    pages: Pages, watched: Watched
) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = pages.open(scheme="light"), pages.open(scheme="dark")
    seen = {}
    for name, page in (("light", light), ("dark", dark)):
        show(page, watched.dashboard, "network")
        seen[name] = page.evaluate(ground)
    assert sum(map(int, re.findall(r"\d+", seen["light"]))) > 600
    assert sum(map(int, re.findall(r"\d+", seen["dark"]))) < 150

    button = light.get_by_role("button", name="Change to the dark theme")
    button.click()
    assert light.evaluate(ground) == seen["dark"]
    light.reload()
    assert light.evaluate(ground) == seen["dark"]
    light.get_by_role("button", name="Change to the light theme").click()
    assert light.evaluate(ground) == seen["light"]
    light.emulate_media(color_scheme="dark")
    assert light.evaluate(ground) == seen["light"]  # what was chosen counts more

    dark.emulate_media(color_scheme="light")
    until(lambda: dark.evaluate(ground) == seen["light"])
