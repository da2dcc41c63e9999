"""A simulated world on disk: data that `delbo fit` reads, the plan for programs, and a picture of it for people."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from client.streams.world.exploration import SimulatedData
from client.streams.world.tables import WorldTables


def write_world(directory: Path, tables: WorldTables) -> list[Path]:
    """Write world.npz, test.npz, plan.json and plan.png into the directory; the files written."""
    directory.mkdir(parents=True, exist_ok=True)
    world, train, test = tables
    files = [directory / name for name in ("world.npz", "test.npz", "plan.json", "plan.png")]
    groups: dict[str, Any] = train.groups
    np.savez_compressed(files[0], xy=train.x, label=train.y, **groups)
    np.savez_compressed(files[1], xy=test.x, label=test.y)
    files[2].write_text(json.dumps(_plan_document(world), allow_nan=False) + "\n", encoding="utf-8")
    _write_picture(world, files[3])
    return files


def _plan_document(world: SimulatedData) -> dict[str, Any]:
    """The plan and the robots' paths as JSON takes them; rooms, wings and robots are numbered from 0."""
    plan = world.plan
    rooms = zip(plan.rooms.tolist(), plan.wings.tolist(), plan.is_corridor.tolist(), strict=True)
    doors = zip(plan.doors.tolist(), plan.door_widths_m.tolist(), plan.joined_rooms.tolist(), strict=True)
    return {
        "width_m": plan.width_m,
        "height_m": plan.height_m,
        "walls": plan.walls.tolist(),
        "rooms": [{"box": box, "wing": wing, "is_corridor": corridor} for box, wing, corridor in rooms],
        "doors": [{"center": center, "width_m": width_m, "rooms": joined} for center, width_m, joined in doors],
        "furniture": plan.furniture.tolist(),
        "paths": [{key: values.tolist() for key, values in vars(path).items()} for path in world.paths],
    }


def _write_picture(world: SimulatedData, path: Path) -> None:
    """Walls and furniture, wings tinted, each robot's path in the colour of its wing, with a dot per scan."""
    # matplotlib takes longer to import than a world to simulate.
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    plan = world.plan

    def rectangles(boxes: Any, **style: Any) -> PatchCollection:
        return PatchCollection([Rectangle((x0, y0), x1 - x0, y1 - y0) for x0, y0, x1, y1 in boxes], **style)

    longest_m = max(plan.width_m, plan.height_m)
    figure = Figure(figsize=(1 + 9 * plan.width_m / longest_m, 1 + 9 * plan.height_m / longest_m), layout="constrained")
    axes = figure.subplots()
    for robot, driven in enumerate(world.paths):
        color = f"C{robot % 10}"
        axes.add_collection(rectangles(plan.rooms[plan.wings == robot], facecolor=color, alpha=0.12, linewidth=0))
        axes.plot(*driven.way_points.T, "-", color=color, linewidth=1)
        axes.plot(*driven.positions.T, ".", color=color, markersize=4)
    axes.add_collection(rectangles(plan.furniture, facecolor="0.6", edgecolor="0.3"))
    axes.add_collection(LineCollection(list(plan.walls.reshape(-1, 2, 2)), colors="0.1", linewidths=2))
    axes.set(title=f"{len(world.paths)} robot(s), {plan.width_m:g} m x {plan.height_m:g} m")
    axes.set(aspect="equal", xlim=(-0.3, plan.width_m + 0.3), ylim=(-0.3, plan.height_m + 0.3))
    figure.savefig(path, dpi=100)
