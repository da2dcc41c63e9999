"""Tokens on the client's side: which is sent, how a set is made, and how tokens are replaced."""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from service.errors import SettingError
from service.wire.roles import ROLES, Role
from service.wire.tokens import MOST_TOKENS, TokenSet, new_token, read_tokens

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
    """A token for each role that has no file yet; the files that were made. Afterwards each role has a token."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The folder keeps others out. Its files may be read, as whoever reads them in a container is another user.
        closed = folder.stat().st_mode & 0o077 == 0
    except OSError as fault:
        raise SettingError(f"{folder}: cannot be made a folder: {fault.strerror}") from None
    made = [folder / role for role in roles if _make(folder / role, 0o644 if closed else 0o600)]
    read_tokens(folder)  # files that were there may be anything
    return made


def _make(path: Path, mode: int) -> bool:
    """A file with a new token, if there is none; whole at once, whoever else makes it or reads it just then."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{new_token()}\n")
        draft.chmod(mode)  # whatever the user lets others see otherwise
        path.hardlink_to(draft)  # unlike a rename it replaces nothing
    except FileExistsError:
        return False
    except OSError as fault:
        raise SettingError(f"{path}: cannot be written: {fault.strerror}") from None
    finally:
        with suppress(OSError):
            draft.unlink()
    return True


class Step(StrEnum):
    """The three steps in which a token is replaced without a gap."""

    add = "add"
    use = "use"
    drop = "drop"


_NEXT, _OLD = "# not yet in use:", "# no longer in use:"


def replace_tokens(folder: Path, roles: Sequence[Role] | None, step: Step) -> list[Role]:
    """Do one step for each of these roles, or for all that have tokens; for none, if one of them cannot.

    It is the first token of a role that is replaced; others stay. Files are written over, not replaced: a container
    that has a file mounted goes on to see that very file.
    """
    before = read_tokens(folder)
    done = [role for role in ROLES if before[role]] if roles is None else list(roles)
    contents = {folder / role: _after(step, folder / role, before[role]) for role in done}
    for path, lines in contents.items():
        try:
            with path.open("r+b") as file:
                file.write("".join(f"{line}\n" for line in lines).encode("latin-1"))
                file.truncate()
        except OSError as fault:
            raise SettingError(f"{path}: cannot be written: {fault.strerror}") from None
    return done


def _after(step: Step, path: Path, tokens: tuple[str, ...]) -> list[str]:
    """A file's lines after a step; each step has its turn, so that none is done twice by mistake."""
    if not tokens:
        raise SettingError(f"{path}: has no token to be replaced")
    lines = [line.strip() for line in path.read_text(encoding="latin-1").splitlines()]
    turn = Step.use if _NEXT in lines else Step.drop if _OLD in lines else Step.add
    if step is not turn:
        raise SettingError(f"{path}: the next step there is {turn}, not {step}")
    if step is Step.drop:
        place = lines.index(_OLD)
        return lines[:place] + lines[place + 2 :]
    if step is Step.add:
        if len(tokens) == MOST_TOKENS:
            raise SettingError(f"{path}: has {MOST_TOKENS} tokens, as many as a role may have: remove some first")
        return [*lines, _NEXT, new_token()]
    place, first = lines.index(_NEXT), lines.index(tokens[0])
    lines[first], rest = lines[place + 1], lines[place + 2 :]
    return [*lines[:place], *rest, _OLD, tokens[0]]
