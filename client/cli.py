"""`delbo`: the command line. Importing a module of commands makes them known."""

import warnings
from typing import NoReturn

from client.commands import agents, asking, demo, deploying, fitting, logs, measuring, networks, watching  # noqa: F401
from client.commands.app import app
from client.console import err
from service.errors import AgentRefusedError, DelboError
from service.wire.problems import NOT_LET_IN

__all__ = ["app", "run"]


def run() -> None:
    """The console script: an error that delbo raises on purpose is one sentence and exit code 2, no traceback."""
    warnings.showwarning = lambda message, *_, **__: err.print(f"warning: {message}", soft_wrap=True)
    try:
        app()
    except AgentRefusedError as fault:
        hint = "; name the tokens' folder with --tokens or DELBO_TOKENS" if fault.slug in NOT_LET_IN else ""
        _refuse(f"{fault}{hint}")
    except DelboError as fault:
        _refuse(str(fault))
    except MemoryError:
        _refuse("there is not enough memory: take fewer features or agents, or family: diagonal")


def _refuse(sentence: str) -> NoReturn:
    err.print(f"delbo: {sentence}", style="red", soft_wrap=True)
    raise SystemExit(2) from None
