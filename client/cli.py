"""`delbo`: the command line. Importing a module of commands makes them known."""

import warnings
from typing import NoReturn

from client.commands import agents, demo, fitting, logs, measuring, networks  # noqa: F401
from client.commands.app import app
from client.console import err
from service.errors import DelboError

__all__ = ["app", "run"]


def run() -> None:
    """The console script: an error that delbo raises on purpose is one sentence and exit code 2, no traceback."""
    warnings.showwarning = lambda message, *_, **__: err.print(f"warning: {message}", soft_wrap=True)
    try:
        app()
    except DelboError as fault:
        _refuse(str(fault))
    except MemoryError:
        _refuse("there is not enough memory: take fewer features or agents, or family: diagonal")


def _refuse(sentence: str) -> NoReturn:
    err.print(f"delbo: {sentence}", style="red", soft_wrap=True)
    raise SystemExit(2) from None
