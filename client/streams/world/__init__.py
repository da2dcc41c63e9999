"""A simulated building, explored by robots with laser scanners: the demo's data, every number from one seed.

The building has rooms along corridors, divided into one wing per robot. A robot drives through its own wing only; its
beams stop at walls and furniture, and see into another wing through open doors and along corridors at most. A beam
becomes labelled points: free (0) along its way, occupied (1) where it ended. Lengths are in meters, angles in radians,
boxes are (x0, y0, x1, y1) with x0 < x1 and y0 < y1, segments are (x0, y0, x1, y1) in any direction.
"""

from client.streams.world.exploration import SimulatedData, explore
from client.streams.world.floor_plan import FloorPlan, make_floor_plan
from client.streams.world.geometry import cast_rays, distance_to
from client.streams.world.lidar import Scans, labelled_points, scan
from client.streams.world.paths import RobotPath, drive
from client.streams.world.truth import evaluation_points

__all__ = [
    "FloorPlan",
    "RobotPath",
    "Scans",
    "SimulatedData",
    "cast_rays",
    "distance_to",
    "drive",
    "evaluation_points",
    "explore",
    "labelled_points",
    "make_floor_plan",
    "scan",
]
