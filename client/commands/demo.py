"""`delbo demo` and `delbo simulate-world`: robots that explore a simulated building."""

from pathlib import Path
from typing import Annotated

import typer
import yaml

from client.commands.app import RUNS, SeedOption, app, prepare, present, wait_for
from client.console import out, program
from client.demo import run_demo, write_network
from client.demo_world import DEMO_WORLD, model_for
from client.live import LiveView
from client.streams.world.files import write_world
from client.streams.world.tables import world_tables


@app.command(name="demo", short_help="See robots learn a building together, each in its own part.")
def demo_command(
    agents: Annotated[int, typer.Option(min=2, max=16, help="The number of robots, and of agents.")] = 4,
    seed: SeedOption = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the agents running, and a dashboard.")] = False,
    out_dir: Annotated[Path, typer.Option("--out", help="Where the agents' data, maps and the report go.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Robots explore a building, each its own part; each learns the whole map."""
    prepare(out_dir)
    path = write_network(out_dir, agents, seed)
    with LiveView() as view:
        result, dashboard = wait_for(run_demo(path, keep, view))
    present(result, out_dir, as_json=False)
    where = "" if out_dir.parent == RUNS else f" --runs {out_dir.parent}"
    next_steps = [f"{program()} run {path}{where} --fresh    the same from its file: change it, see docs/network.md"]
    if keep:
        next_steps += [
            f"{dashboard}    the dashboard: open it in a browser",
            f"{program()} status {path}{where}    how the agents are; docs/client.md: how to post to them",
            f"{program()} down {path}{where}    end them, and the dashboard",
        ]
    else:
        next_steps += [f"{program()} demo --keep    leaves the agents running, to watch and to post to"]
    out.print("\nTry next:")
    for line in next_steps:
        out.print(f"  {line}", soft_wrap=True)


@app.command(name="simulate-world", short_help="Write a simulated building's data to files.")
def simulate_world_command(
    out_dir: Annotated[Path, typer.Option("--out", help="Where the files go.")] = Path("runs/world"),
    robots: Annotated[int, typer.Option(min=1, max=1000, help="How many; each has its own part.")] = 4,
    rooms_across: Annotated[
        int | None, typer.Option(min=1, help="Rooms in a row. [default: by the number of robots]", show_default=False)
    ] = None,
    rooms_down: Annotated[
        int | None, typer.Option(min=1, help="Rows of rooms. [default: by the number of robots]", show_default=False)
    ] = None,
    room_m: Annotated[float, typer.Option(help="The side of a room, in meters.")] = DEMO_WORLD["room_m"],
    scans: Annotated[int, typer.Option(min=1, help="Scans of each robot.")] = DEMO_WORLD["scans_per_robot"],
    beams: Annotated[int, typer.Option(min=1, help="Beams of a scan.")] = DEMO_WORLD["beams"],
    noise_m: Annotated[float, typer.Option(min=0, help="Noise on a range.")] = DEMO_WORLD["noise_m"],
    test_points: Annotated[int, typer.Option(min=2, help="Points of the test file.")] = 8000,
    seed: SeedOption = 0,
) -> None:
    """Write a simulated building and what robots see of it to files."""
    prepare(out_dir)
    sizes = {"rooms_across": rooms_across, "rooms_down": rooms_down, "room_m": room_m, "beams": beams}
    tables = world_tables(
        seed,
        test_points,
        **{**DEMO_WORLD, **sizes, "robots": robots, "scans_per_robot": scans, "noise_m": noise_m},
    )
    plan = tables.world.plan
    files = write_world(out_dir, tables)
    files.append(out_dir / "model.yaml")
    files[-1].write_text(yaml.safe_dump(model_for(plan.width_m, plan.height_m), sort_keys=False), encoding="utf-8")
    out.print(
        f"{plan.width_m:g} m x {plan.height_m:g} m, {robots} robots, {len(tables.train):,} observations, "
        f"{tables.train.y.mean():.0%} of them occupied"
    )
    out.print("wrote " + " ".join(str(path) for path in files), soft_wrap=True)
    options = f"--partition robot --test {files[1]} --batch 100 --compare"
    out.print(f"\nTry next:  {program()} fit {files[-1]} {files[0]} {options}", soft_wrap=True)
