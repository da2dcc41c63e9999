"""`python -m service.health`: whether the agent of this container is ready; of the standard library alone, so quick."""

import http.client
import json
import os
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

_DEADLINE_S = 4.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where an agent that listens everywhere is found


def main() -> int:
    """0 if the agent of DELBO_DATA_DIR says on `/v1/readyz` that it is ready; else 1, and why."""
    try:
        told = json.loads((Path(os.environ.get("DELBO_DATA_DIR") or ".") / "address.json").read_bytes())
        place = urlsplit(str(told["url"]))
        host = _EVERYWHERE.get(place.hostname or "", place.hostname or "")
        with closing(http.client.HTTPConnection(host, place.port, timeout=_DEADLINE_S)) as connection:
            connection.request("GET", "/v1/readyz")
            answer = connection.getresponse()
            print(answer.read(4096).decode(errors="replace"))
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as fault:
        print(f"no answer: {fault}")
        return 1
    return 0 if answer.status == http.HTTPStatus.OK else 1


if __name__ == "__main__":
    sys.exit(main())
