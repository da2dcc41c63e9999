"""Problem documents, as agents send them and read them."""

from typing import Final

import msgspec

PROBLEM_TYPE: Final = "application/problem+json"
_PREFIX: Final = "urn:delbo:problem:"

ROUND_UNKNOWN: Final = "round-unknown"
ROUND_GONE: Final = "round-gone"


class _Problem(msgspec.Struct):
    type: str


_decoder = msgspec.json.Decoder(_Problem)


def problem_type(slug: str) -> str:
    """The stable `type` of a problem."""
    return _PREFIX + slug


def problem_slug(body: bytes) -> str | None:
    """The short name of the problem in an answer's body, if it is one of ours."""
    try:
        kind = _decoder.decode(body).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return kind.removeprefix(_PREFIX) if kind.startswith(_PREFIX) else None
