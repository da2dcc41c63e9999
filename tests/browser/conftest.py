"""A browser page for tests: offline except for this machine, and without errors, or the test fails."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:  # playwright may be absent: then the tests here are skipped, not broken
    from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, WebSocketRoute

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


@pytest.fixture
def page() -> Iterator["Page"]:
    """A page of headless Chromium; at the end there must have been no foreign request and no error."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (make install-dev)")
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("there is no chromium on the PATH (sudo apt-get install chromium)")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=CHROMIUM_ARGUMENTS)
        try:
            # A service worker's requests would pass by the routes.
            context = browser.new_context(service_workers="block")
            foreign_requests = keep_local(context)
            errors = note_errors(context)
            yield context.new_page()
            context.close()
        finally:
            browser.close()
    assert foreign_requests == [], "the page asked for something that is not on this machine"
    assert errors == [], "the page had errors"
