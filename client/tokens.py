"""Tokens on the client's side: which is sent, how a set is made, and how tokens are replaced."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from service.errors import SettingError
from service.wire.roles import ROLES, Role
from service.wire.tokens import TokenSet, new_token, read_tokens

Tokens = str | Callable[[Role], str | None]

_READ_EVERY_S = 1.0


class TokenFolder:
    """A folder as `delbo tokens` makes it; it may lack roles. Read anew every now and then: tokens are replaced."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self._clock = folder, clock
        self._tokens: TokenSet = read_tokens(folder)
        self._read_at = clock()

    def __call__(self, role: Role) -> str | None:
        """The token to send where a role is needed; None if this folder has none."""
        if self._clock() - self._read_at >= _READ_EVERY_S:
            self._read_at = self._clock()
            with suppress(SettingError):  # what was read before may do; if not, the agent will say so
                self._tokens = read_tokens(self.folder)
        return next(iter(self._tokens[role]), None)


def token_for(tokens: Tokens | None, role: Role | None) -> str | None:
    """What to send where a role is needed."""
    if tokens is None or role is None:
        return None
    return tokens if isinstance(tokens, str) else tokens(role)


def make_tokens(folder: Path, roles: Sequence[Role] = ROLES) -> list[Path]:
    """A token for each role that has no file yet; the files that were made."""
    try:
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
        # The folder keeps others out. Its files may be read, as whoever reads them in a container is another user.
        closed = folder.stat().st_mode & 0o077 == 0
        made = []
        for role in roles:
            try:
                handle = os.open(folder / role, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644 if closed else 0o600)
            except FileExistsError:
                continue
            with os.fdopen(handle, "w") as file:
                file.write(f"{new_token()}\n")
            made.append(folder / role)
    except OSError as fault:
        raise SettingError(f"{fault.filename}: cannot be written: {fault.strerror}") from None
    return made


class Step(StrEnum):
    """The three steps in which a token is replaced without a gap."""

    add = "add"
    use = "use"
    drop = "drop"

    def __call__(self, tokens: tuple[str, ...]) -> tuple[str, ...]:
        """The tokens after this step."""
        if self is Step.add:
            return (*tokens, new_token())
        return (tokens[-1], *tokens[:-1]) if self is Step.use else tokens[:1]


def change_tokens(folder: Path, roles: Sequence[Role], step: Step) -> None:
    """Do one step for each role that has tokens.

    Files are written over, not replaced: a container that has a file mounted goes on to see that very file.
    """
    before = read_tokens(folder)
    for role in roles:
        if not before[role]:
            continue
        content = "".join(f"{token}\n" for token in step(before[role])).encode()
        try:
            with (folder / role).open("r+b") as file:
                file.write(content)
                file.truncate()
        except OSError as fault:
            raise SettingError(f"{folder / role}: cannot be written: {fault.strerror}") from None
