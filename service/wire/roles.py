"""Who may ask an agent for what: every endpoint, and the role that it takes."""

from typing import Literal, get_args

Role = Literal["peer", "ingest", "read", "control"]

ROLES: tuple[Role, ...] = get_args(Role)

ENDPOINTS: dict[tuple[str, str], Role | None] = {
    ("PUT", "/v1/model"): "control",
    ("PUT", "/v1/neighbors"): "control",
    ("PUT", "/v1/schedule"): "control",
    ("PUT", "/v1/verification"): "control",
    ("POST", "/v1/rounds"): "control",
    ("POST", "/v1/observations"): "ingest",
    ("GET", "/v1/observations"): "ingest",
    ("GET", "/v1/streams"): "ingest",
    ("GET", "/v1/parameters"): "peer",
    ("GET", "/v1/model"): "read",
    ("GET", "/v1/neighbors"): "read",
    ("GET", "/v1/schedule"): "read",
    ("GET", "/v1/belief"): "read",
    ("GET", "/v1/status"): "read",
    ("GET", "/v1/history"): "read",
    ("GET", "/v1/verification"): "read",
    ("POST", "/v1/predictions"): "read",
    ("GET", "/v1/map"): "read",
    ("GET", "/v1/events"): "read",
    ("GET", "/v1/metrics"): None,
    ("GET", "/metrics"): None,
    ("GET", "/v1/livez"): None,
    ("GET", "/v1/readyz"): None,
    ("GET", "/livez"): None,
    ("GET", "/readyz"): None,
    ("GET", "/docs"): None,
    ("GET", "/openapi.json"): None,
}
"""None: open to everybody. An application with an endpoint that is not here does not start."""
