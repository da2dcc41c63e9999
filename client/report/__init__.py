"""What a fit leaves behind: PNG plots, one self-contained HTML page, and the numbers and beliefs themselves."""

import json
from pathlib import Path

import numpy as np

from client.report.maps import Maps
from client.report.page import write_page
from client.report.pictures import write_agents, write_curves, write_overview
from client.result import Result


def write_report(result: Result, directory: Path) -> list[Path]:
    """Write everything into the directory; the files written, the page first."""
    maps = Maps(result) if result.features.dimension == 2 and not result.likelihood.is_vector else None
    agents = None
    if maps is not None and len(maps.predictions) > 1:
        agents = write_agents(maps, directory / "agents.png")
    files = [write_page(result, maps, agents, directory / "report.html")]
    if maps is not None:
        files.append(write_overview(maps, directory / "maps.png"))
    if agents is not None:
        files.append(agents)
    if result.curves.rounds:
        files.append(write_curves(result, directory / "curves.png"))
    return [*files, *_write_numbers(result, directory)]


def _write_numbers(result: Result, directory: Path) -> list[Path]:
    summary, model, beliefs = directory / "result.json", directory / "model.json", directory / "beliefs.npz"
    summary.write_text(json.dumps(result.summary, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    model.write_text(result.spec.model_dump_json(indent=2, exclude_none=True) + "\n", encoding="utf-8")
    information = np.stack([belief.information for belief in result.beliefs])
    np.savez_compressed(beliefs, information=information, shift=np.stack([belief.shift for belief in result.beliefs]))
    return [summary, model, beliefs]
