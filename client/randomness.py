"""One seed decides a whole run, by independent generators for each purpose."""

from typing import Literal, get_args

import numpy as np

Purpose = Literal["centers", "partition", "topology", "shuffle"]


def generator_for(purpose: Purpose, seed: int, *key: int) -> np.random.Generator:
    """The generator for a purpose, and for a key (agent, pass) within it; all are independent of each other."""
    sequence = np.random.SeedSequence(seed, spawn_key=(get_args(Purpose).index(purpose), *key))
    return np.random.default_rng(sequence)
