"""The tokens that an agent accepts, and the one that it sends; read from their files again and again."""

import asyncio
import hashlib
import hmac
import logging
from contextlib import suppress
from pathlib import Path

from service.errors import SettingError
from service.wire.roles import ROLES, Role
from service.wire.tokens import TokenSet, read_tokens

_READ_EVERY_S = 1.0

log = logging.getLogger(__name__)


class Tokens:
    """The tokens of a folder. What cannot be read is logged, and the tokens that were read before stay in force."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trouble: str | None = None
        self._use(read_tokens(folder))

    def roles_of(self, token: str) -> set[Role]:
        """The roles of whoever holds this token; all known ones are compared, each in constant time."""
        presented = _digest(token)
        return {role for role, known in self._digests if hmac.compare_digest(known, presented)}

    @property
    def of_peer(self) -> str | None:
        """The token that this agent sends to its peers."""
        return next(iter(self._tokens["peer"]), None)

    async def watch(self, stopped: asyncio.Event) -> None:
        """Read the files every now and then, until the agent stops."""
        while not stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), _READ_EVERY_S)
            await self.renew()

    async def renew(self) -> None:
        """Take what the files hold now."""
        try:
            tokens = await asyncio.to_thread(read_tokens, self._folder)
        except SettingError as fault:
            if str(fault) != self._trouble:
                log.warning("the tokens read before stay in force: %s", fault)
            self._trouble = str(fault)
            return
        self._trouble = None
        if tokens != self._tokens:
            self._use(tokens)
            log.info("new tokens: %s", ", ".join(f"{len(self._tokens[role])} for {role}" for role in ROLES))

    def _use(self, tokens: TokenSet) -> None:
        self._tokens = tokens
        self._digests = [(role, _digest(token)) for role in ROLES for token in tokens[role]]


def _digest(token: str) -> bytes:
    """Of one length, so that comparing tells nothing of a token's length either."""
    return hashlib.sha256(token.encode()).digest()
