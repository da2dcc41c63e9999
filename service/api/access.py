"""Who gets in: a bearer token of the role that an endpoint takes."""

from typing import Protocol

from service.api.problems import ProblemError
from service.wire.problems import TOKEN_NEEDED, WRONG_ROLE
from service.wire.roles import Role


class Roles(Protocol):
    """Whoever knows which roles a token has."""

    def roles_of(self, token: str) -> set[Role]: ...


class Access:
    """Lets requests in, or refuses them; without tokens, everybody may do everything."""

    def __init__(self, tokens: Roles | None) -> None:
        self._tokens = tokens

    def check(self, role: Role | None, authorization: str | None) -> None:
        """Refuse who may not; role: what the endpoint takes; authorization: the request's header."""
        if self._tokens is None or role is None:
            return
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise ProblemError(TOKEN_NEEDED, f"send a token of the role {role}: 'Authorization: Bearer TOKEN'")
        roles = self._tokens.roles_of(token.strip())
        if not roles:
            raise ProblemError(TOKEN_NEEDED, f"this token is not known here; one of the role {role} is needed")
        if role not in roles:
            raise ProblemError(WRONG_ROLE, f"this token is for {' and '.join(sorted(roles))}; this is for {role}")
