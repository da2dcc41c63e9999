"""`delbo tokens` and `delbo compose`: what a network on several machines, or in containers, needs."""

import re
import shlex
import stat
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from client.commands.app import SeedOption, app, prepare
from client.console import note, out, program
from client.containers import COMPOSE_FILE, HEAD_BEGINS, NETWORK_FILE, Containers, write_files
from client.network.document import NAME_PATTERN
from client.tokens import Step, make_tokens, replace_tokens
from service.errors import SettingError
from service.wire.roles import ROLES, Role

_LAST_PORT = 65_535


class RoleName(StrEnum):
    """What a token lets its holder do; typer takes no list of literals."""

    peer = "peer"
    ingest = "ingest"
    read = "read"
    control = "control"


@app.command(name="tokens", short_help="Make or replace the tokens that let others in.")
def tokens_command(
    folder: Annotated[Path, typer.Argument(help="Where the files are or go: peer, ingest, read, control.")],
    roles: Annotated[
        list[RoleName] | None, typer.Option("--role", help="Only this role; may be given again. [default: all]")
    ] = None,
    replace: Annotated[
        Step | None,
        typer.Option(
            help="Replace tokens in three steps, each copied to all machines before the next: "
            "add a new one behind the old, use the new one, drop the old ones."
        ),
    ] = None,
) -> None:
    """Make a set of tokens for a network: a file for each role, which all its agents get.

    Files that are there already stay as they are. Give others only the files of what they may do.
    """
    wanted: list[Role] | None = None if roles is None else [role for role in ROLES if role in roles]
    if replace is None:
        made = make_tokens(folder, wanted or ROLES)
        out.print(f"wrote {' '.join(map(str, made))}" if made else f"{folder} has them already", soft_wrap=True)
        return
    replaced = replace_tokens(folder, wanted, replace)
    done = {Step.add: "a new token is accepted", Step.use: "the new token is used", Step.drop: "the old ones are gone"}
    out.print(f"{', '.join(replaced)}: {done[replace]} wherever these files are, a second later")


@app.command(name="compose", short_help="Write the compose file of a network in containers.")
def compose_command(
    agents: Annotated[int, typer.Option(min=2, max=16, help="The number of robots, and of agents.")] = 4,
    topology: Annotated[str, typer.Option(help="ring, line, star, complete, grid or random.")] = "ring",
    out_dir: Annotated[Path, typer.Option("--out", help="Where the files go; its name is the network's.")] = Path(
        "runs/compose"
    ),
    seed: SeedOption = 0,
    image: Annotated[
        str | None, typer.Option(help="An image to take. [default: build one from this source]", show_default=False)
    ] = None,
    secrets: Annotated[
        Path | None,
        typer.Option(help="Take the tokens from this folder, and make them if need be. [default: in a volume]"),
    ] = None,
    publish: Annotated[
        int | None,
        typer.Option(min=1, max=_LAST_PORT, help="Open the agents' ports on 127.0.0.1, from this one on."),
    ] = None,
) -> None:
    """Write the compose file of a network in containers, and the network's file beside it."""
    name = out_dir.resolve().name
    if not re.fullmatch(NAME_PATTERN, name) or name != name.lower() or "." in name:
        raise SettingError(f"--out {out_dir}: the folder names the network: take small letters, digits and - _")
    if publish is not None and publish + agents - 1 > _LAST_PORT:
        raise SettingError(f"--publish {publish}: there are no {agents} ports from there on")
    if image is not None and not image.strip():
        raise SettingError("--image: an image has a name")
    _check_ours(out_dir)
    containers = Containers(out_dir, agents, topology, seed, name, image, secrets, publish)
    contents = containers.files()  # before anything is written: it refuses what cannot work
    made = [] if secrets is None else make_tokens(secrets)
    prepare(out_dir)
    files = [*write_files(contents), *made]
    out.print("wrote " + " ".join(str(path) for path in files), soft_wrap=True)
    if secrets is not None:
        _note_unreadable(secrets)
    where = shlex.quote(str(out_dir / COMPOSE_FILE))
    out.print(f"Try next:  docker compose -f {where} up    (or podman-compose)", soft_wrap=True)


def _note_unreadable(secrets: Path) -> None:
    """Containers run as a user of their own."""
    closed = [str(secrets / role) for role in ROLES if not (secrets / role).stat().st_mode & stat.S_IROTH]
    if closed:
        files = " ".join(closed)
        note(f"the user in the containers cannot read {files}: close the folder, and open its files (chmod 644)")


def _check_ours(folder: Path) -> None:
    """Write over nothing that somebody else has written."""
    for path in (folder / COMPOSE_FILE, folder / NETWORK_FILE):
        if path.exists() and not (path.is_file() and path.read_text(errors="replace").startswith(HEAD_BEGINS)):
            raise SettingError(f"--out {folder}: {path} is not from {program()} compose: take another folder")
