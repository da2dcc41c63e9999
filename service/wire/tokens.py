"""Tokens, in files: a folder has one for each role, named after it, with a token a line.

Whoever holds a token of a role may do what the role may. An agent accepts every token of its folder; a client, or an
agent that asks a peer, sends the first of the role that is needed. So a token is replaced without a gap: add the new
one behind the old one everywhere, then put it first, then remove the old one.
"""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from service.errors import SettingError
from service.wire.roles import ROLES, Role

TokenSet = Mapping[Role, tuple[str, ...]]

MOST_TOKENS = 100  # of a role

_TOKEN = re.compile(r"(?=.{16,512}\Z)[A-Za-z0-9._~+/-]+=*")  # what a bearer token may be, and too long to be guessed
_RULE = "a token has 16 to 512 letters, digits and any of ._~+/-, and may end with ="
_LARGEST = 65_536  # bytes of a file


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return secrets.token_urlsafe(32)


def check_token(text: str) -> str:
    """A token as somebody has it from a file, without the line's end; what is none is refused, and not shown."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise SettingError(f"this is no token: {_RULE}")
    return token


def read_tokens(folder: Path) -> TokenSet:
    """The tokens of every role, in their order; a role without a file has none, but one role must have some."""
    tokens = {role: _read(folder / role) for role in ROLES}
    if not any(tokens.values()):
        raise SettingError(f"{folder}: has no tokens: delbo tokens {folder} makes a set")
    return tokens


def _read(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return ()
    except OSError as fault:
        raise SettingError(f"{path}: cannot be read: {fault.strerror}") from None
    if len(content) > _LARGEST:
        raise SettingError(f"{path}: is longer than {_LARGEST} bytes, and so no file of tokens")
    tokens: list[str] = []
    for number, line in enumerate(content.decode("latin-1").split("\n"), 1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if not _TOKEN.fullmatch(token):
            raise SettingError(f"{path}, line {number}: {_RULE}")
        tokens.append(token)
    if not tokens:  # as while somebody writes it
        raise SettingError(f"{path}: holds no token; remove the file if nobody is to have this role")
    if len(tokens) > MOST_TOKENS:
        raise SettingError(f"{path}: has {len(tokens)} tokens, and a role has {MOST_TOKENS} at most")
    return tuple(dict.fromkeys(tokens))
