"""`delbo agent`: one agent."""

from pathlib import Path
from typing import Annotated

import typer

from client.agent_process import become_agent
from client.commands.app import app


@app.command(name="agent", short_help="Run one agent.")
def agent_command(
    name: Annotated[str, typer.Option(envvar="DELBO_NAME", help="The agent's name, unique in its network.")],
    data_dir: Annotated[
        Path, typer.Option(envvar="DELBO_DATA_DIR", help="Where it keeps its file; one directory per agent.")
    ],
    port: Annotated[
        int | None, typer.Option(envvar="DELBO_PORT", help="The port to listen on; 0 takes a free one. [default: 8001]")
    ] = None,
    host: Annotated[
        str | None, typer.Option(envvar="DELBO_HOST", help="The address to listen on. [default: 127.0.0.1]")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(envvar="DELBO_TOKENS", help="A folder of tokens; who has none of them is not let in."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", envvar="DELBO_INSECURE", help="Let other machines in without tokens.")
    ] = False,
    log_format: Annotated[
        str | None, typer.Option(envvar="DELBO_LOG_FORMAT", help="How log lines look: text or json. [default: text]")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(envvar="DELBO_LOG_LEVEL", help="What is logged: debug, info, warning or error. [default: info]"),
    ] = None,
    inbox_limit: Annotated[
        int | None,
        typer.Option(
            envvar="DELBO_INBOX_LIMIT",
            help="Observations that may wait, or places for replay. [default: 1000000]",
            show_default=False,
        ),
    ] = None,
    history_limit: Annotated[
        int | None, typer.Option(envvar="DELBO_HISTORY_LIMIT", help="Rounds whose summaries are kept. [default: 10000]")
    ] = None,
    body_limit: Annotated[
        int | None, typer.Option(envvar="DELBO_BODY_LIMIT", help="Bytes that a body may have. [default: 8388608]")
    ] = None,
) -> None:
    """Run one agent; docs/agent.md tells how to talk to it."""
    given = {
        "--name": name,
        "--data-dir": data_dir,
        "--port": port,
        "--host": host,
        "--tokens": tokens,
        "--log-format": log_format,
        "--log-level": log_level,
        "--inbox-limit": inbox_limit,
        "--history-limit": history_limit,
        "--body-limit": body_limit,
    }
    options = [text for option, value in given.items() if value is not None for text in (option, str(value))]
    options += ["--insecure"] if insecure else []
    become_agent(options)
