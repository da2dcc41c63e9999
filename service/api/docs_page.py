"""`/docs`: the OpenAPI document as one page, without scripts and without anything from another server."""

import json
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; } code, pre { font-family: ui-monospace, monospace; font-size: .9rem; }
h2 b { display: inline-block; min-width: 3.5rem; color: #0a5a8a; }
pre { background: #f4f5f7; padding: .75rem; overflow-x: auto; } table { border-collapse: collapse; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; } details { margin: .25rem 0; }
@media (prefers-color-scheme: dark) {
  body { background: #15181c; color: #e3e6ea; } pre { background: #22262c; } h2 b, a { color: #7cc4f0; }
}
"""

HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}


def docs_page(document: dict[str, Any]) -> str:
    """The page for an OpenAPI document."""
    title = escape(document["info"]["title"])
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>",
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head><body><h1>{title}</h1>",
        f"<p>{escape(document['info'].get('description', ''))} Version {escape(document['info']['version'])}; ",
        "<a href='/openapi.json'>openapi.json</a></p>",
    ]
    for path, methods in document["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in methods.items()]
    schemas = document.get("components", {}).get("schemas", {})
    parts.append("<h1>Documents</h1>")
    parts += [f"<h2 id='{escape(name)}'>{escape(name)}</h2>{_json(schema)}" for name, schema in schemas.items()]
    return "".join([*parts, "</body></html>"])


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    said = ". ".join(operation[part].rstrip(".") for part in ("summary", "description") if part in operation)
    text = f"<h2><b>{method.upper()}</b> <code>{escape(path)}</code></h2><p>{escape(said)}</p>"
    rows = "".join(
        f"<tr><td><code>{escape(_shown(one))}</code></td><td>{escape(one.get('description', ''))}</td></tr>"
        for one in operation.get("parameters", [])
    )
    text += f"<table>{rows}</table>" if rows else ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        text += f"<details><summary>body: {escape(kind)}</summary>{_json(content)}</details>"
    return text


def _shown(parameter: dict[str, Any]) -> str:
    """A parameter of the address with its question mark, a header without."""
    return f"?{parameter['name']}" if parameter["in"] == "query" else str(parameter["name"])


def _json(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"
