"""Browser pages for tests: offline except for this machine, and without errors, or the test fails."""

import os
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import urlsplit

import pytest

from tests.browser.dashboards import OddlyNamed, Watched, oddly_named_network, watched_network
from tests.processes import PATIENCE_S

if TYPE_CHECKING:  # playwright may be absent: then the tests here are skipped, not broken
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, WebSocketRoute

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL_SCHEMES = {"file", "data", "blob"}
LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "::1"}


def missing(reason: str) -> NoReturn:
    """Skip the test; but where CI is set somebody relies on it, so fail."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and CI is set: the browser tests must run here", pytrace=False)
    pytest.skip(reason)


def is_local(url: str) -> bool:
    """Whether a request stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme in LOCAL_SCHEMES or parts.hostname in LOOPBACK_HOSTS


def keep_local(context: "BrowserContext") -> list[str]:
    """Abort what would leave this machine (a redirect can only be noted); the list fills with its addresses."""
    foreign: list[str] = []

    def refuse_socket(socket: "WebSocketRoute") -> None:
        foreign.append(socket.url)
        socket.close()

    def note_request(request: "Request") -> None:
        # Noted here and not in the route, which does not see where a local server redirects to.
        if not is_local(request.url):
            foreign.append(request.url)

    context.on("request", note_request)
    context.route(lambda url: not is_local(url), lambda route: route.abort())
    context.route_web_socket(lambda url: not is_local(url), refuse_socket)
    return foreign


def note_errors(context: "BrowserContext") -> list[str]:
    """A list that fills with uncaught exceptions and console errors of all pages."""
    errors: list[str] = []

    def note_console(message: "ConsoleMessage") -> None:
        if message.type == "error":
            errors.append(f"console: {message.text}")

    context.on("weberror", lambda event: errors.append(f"page: {event.error}"))
    context.on("console", note_console)
    return errors


class Pages:
    """Pages of headless Chromium, each in a context of its own."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self._contexts: list[tuple[BrowserContext, list[str], list[str]]] = []
        self._expected: list[str] = []

    def open(
        self, width: int = 1440, height: int = 900, scheme: Literal["light", "dark"] = "light", **options: Any
    ) -> "Page":
        """A new page of that size, for somebody who likes it light or dark."""
        # A service worker's requests would pass by the routes.
        context = self._browser.new_context(
            service_workers="block", viewport={"width": width, "height": height}, color_scheme=scheme, **options
        )
        context.set_default_timeout(PATIENCE_S * 1000)
        self._contexts.append((context, keep_local(context), note_errors(context)))
        return context.new_page()

    def expect_errors(self, pattern: str) -> None:
        """What the console may complain of in this test, because the test makes it happen."""
        self._expected.append(pattern)

    def close(self) -> None:
        """There must have been no foreign request and no error."""
        for context, _, _ in self._contexts:
            context.close()
        for _, foreign, errors in self._contexts:
            assert foreign == [], "the page asked for something that is not on this machine"
            surprises = [error for error in errors if not any(re.search(one, error) for one in self._expected)]
            assert surprises == [], "the page had errors"


@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    """One Chromium for all tests here; as long as it is there, this thread cannot run asyncio."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (make install-dev)")
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("there is no chromium on the PATH (sudo apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def pages(browser: "Browser") -> Iterator[Pages]:
    """Pages of this test; at the end there must have been no foreign request and no error."""
    pages = Pages(browser)
    yield pages
    pages.close()


@pytest.fixture
def page(pages: Pages) -> "Page":
    """One page, as large as a laptop's screen."""
    return pages.open()


@pytest.fixture(scope="package")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Three agents that learn a map together, and their dashboard."""
    yield from watched_network(tmp_path_factory.mktemp("watched"))


@pytest.fixture(scope="module")
def oddly_named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddlyNamed]:
    """Two agents with tokens whose names are HTML, and their dashboards."""
    yield from oddly_named_network(tmp_path_factory.mktemp("odd"))
