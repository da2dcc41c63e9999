"""Data sources of a network: files, sensor logs, a simulated world; each becomes a table of observations."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from service.errors import SettingError
from service.wire.configuration import Name
from service.wire.document import Document

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0)]


class _Shared(Document):
    """Who gets which rows."""

    partition: str | None = Field(
        default=None,
        description="sequential, random, round-robin, region, or the name of an array or column; "
        "default: sequential, for a world robot.",
    )
    agent: Name | None = Field(default=None, description="The one agent that gets all of it, instead of a partition.")


class TableSource(_Shared):
    """A .npz or .csv file."""

    kind: Literal["table"]
    path: str = Field(description="Beside the network's file; ${NAME} and ${NAME:-default} are from the environment.")
    rows: str | None = Field(default=None, description="Only these rows, A:B or A:B:STEP.")


class CarmenSource(_Shared):
    """Laser scans of a CARMEN log, as points: free along each beam, occupied at its end."""

    kind: Literal["carmen"]
    path: str = Field(description="Beside the network's file; ${NAME} and ${NAME:-default} are from the environment.")
    max_range_m: Positive = Field(default=40.0, description="A longer reading is a beam that did not return.")
    free_per_m: Positive = Field(default=0.5, description="Free points along a beam, per meter; at least one a beam.")
    free_per_hit: Positive | None = Field(
        default=None, description="Free points per occupied one, instead of free_per_m: the ratio of the classes."
    )
    margin_m: Annotated[float, Field(ge=0)] = Field(default=0.1, description="No free point so close before the end.")
    free_to_m: Positive | None = Field(
        default=None, description="Beams that did not return are free so far; without it they say nothing."
    )
    seed: Seed = 0


class WorldSource(_Shared):
    """A simulated building, explored by robots with laser scanners."""

    kind: Literal["world"]
    robots: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="How many; without it, one per agent."
    )
    rooms_across: Count | None = None
    rooms_down: Count | None = None
    room_m: Positive = 4.0
    corridor_m: Positive = 2.0
    scans_per_robot: Count = 35
    beams: Count = 180
    max_range_m: Positive = 8.0
    noise_m: Annotated[float, Field(ge=0)] = 0.01
    free_per_m: Positive = 1.0
    seed: Seed = 0


Source = Annotated[TableSource | CarmenSource | WorldSource, Field(discriminator="kind")]

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def resolve_path(text: str, folder: Path) -> Path:
    """A path as a document has it: variables put in, and relative to the document's folder."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match["name"]) or match["default"]
        if found is None:
            raise SettingError(f"{text}: the environment has no {match['name']}; set it, or write a default after :-")
        return found

    return folder / Path(_VARIABLE.sub(value, text)).expanduser()
