"""The demo's building and model: what robots on a ring need so that each of them ends with the whole map."""

from typing import Any

# Of client.streams.world.explore, but for the number of robots: a building of 16 x 20 m, four rooms for each of four.
# A scan every meter or so, from all over each room. One free point a beam, mostly: with more of them those that happen
# to lie beside a wall outweigh the wall's own.
DEMO_WORLD: dict[str, Any] = {
    "rooms_across": 4,
    "rooms_down": 4,
    "room_m": 4.0,
    "scans_per_robot": 60,
    "beams": 120,
    "max_range_m": 8.0,
    "noise_m": 0.03,
    "free_per_m": 0.5,
}


def model_for(width_m: float, height_m: float) -> dict[str, Any]:
    """A model for a building of that size.

    The lattice begins 0.1 m outside: nobody knows where walls are when it is laid out, so none shall lie on its lines.
    """
    lower, upper = [-0.1, -0.1], [width_m + 0.1, height_m + 0.1]
    return {
        "features": {"kind": "lattice", "spacing": 0.25, "lengthscale": 0.15, "lower": lower, "upper": upper},
        "prior": {"information": 0.3},
        "likelihood": "probit",
    }


DEMO_MODEL: dict[str, Any] = model_for(16.0, 20.0)
