"""A server that is no agent."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Welcome(http.server.BaseHTTPRequestHandler):
    """Answers everything, and not as an agent would."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Welcome!</html>")

    do_PUT = do_POST = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def website(port: int = 0) -> Iterator[str]:
    """Its address, while it is there."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), _Welcome) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
