"""`python -m service.health`: whether the agent of this container is ready; of the standard library alone, so quick."""

import http.client
import os
import sys

_DEADLINE_S = 4.0


def main() -> int:
    """0 if `/v1/readyz` says so, else 1 and why."""
    port = int(os.environ.get("DELBO_PORT") or 8001)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)
    try:
        connection.request("GET", "/v1/readyz")
        answer = connection.getresponse()
        print(answer.read(4096).decode(errors="replace"))
    except (OSError, http.client.HTTPException) as fault:
        print(f"no answer on port {port}: {fault}")
        return 1
    finally:
        connection.close()
    return 0 if answer.status == http.HTTPStatus.OK else 1


if __name__ == "__main__":
    sys.exit(main())
