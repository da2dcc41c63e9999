"""How the dashboard answers."""

from typing import Any

import msgspec
from fastapi import Response

NO_STORE = {"cache-control": "no-store"}


def json_answer(value: Any, status: int = 200) -> Response:
    """A value as JSON that nobody keeps; what is no number is null."""
    return Response(msgspec.json.encode(value), status, media_type="application/json", headers=NO_STORE)


def file_answer(content: bytes | str, media_type: str, name: str) -> Response:
    """A file to be saved under a name."""
    headers = {**NO_STORE, "content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)
