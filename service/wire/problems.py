"""Problem documents, as agents send them and read them."""

from typing import Final

import msgspec

PROBLEM_TYPE: Final = "application/problem+json"
_PREFIX: Final = "urn:delbo:problem:"

ROUND_UNKNOWN: Final = "round-unknown"
ROUND_GONE: Final = "round-gone"
TOKEN_NEEDED: Final = "token-needed"  # noqa: S105 - the name of a problem
WRONG_ROLE: Final = "wrong-role"
NOT_LET_IN: Final = (TOKEN_NEEDED, WRONG_ROLE)


class Problem(msgspec.Struct, frozen=True):
    """A problem document, as far as programs look at it."""

    type: str
    detail: str = ""
    expected: int | None = None

    @property
    def slug(self) -> str | None:
        """The short name, if it is one of ours."""
        return self.type.removeprefix(_PREFIX) if self.type.startswith(_PREFIX) else None


_decoder = msgspec.json.Decoder(Problem)


def problem_type(slug: str) -> str:
    """The stable `type` of a problem."""
    return _PREFIX + slug


def problem_slug(body: bytes) -> str | None:
    """The short name of the problem in an answer's body, if it is one of ours."""
    problem = read_problem(body)
    return None if problem is None else problem.slug


def read_problem(body: bytes) -> Problem | None:
    """The problem in an answer's body, if there is one."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
