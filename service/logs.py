"""Log lines, as text for people or as JSON for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal


class _Text(logging.Formatter):
    def __init__(self, agent: str) -> None:
        super().__init__(f"%(asctime)s {agent.replace('%', '%%')} %(levelname)s %(message)s")


class _Json(logging.Formatter):
    def __init__(self, agent: str) -> None:
        super().__init__()
        self._agent = agent

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "agent": self._agent,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def start_logging(agent: str, layout: Literal["text", "json"], level: str) -> None:
    """Send everything to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Text(agent) if layout == "text" else _Json(agent))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
