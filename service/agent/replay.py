"""The replay buffer: a uniform sample of everything collected, of bounded size (Vitter's algorithm R).

While all fits, every observation has its own place, and drawing from the buffer is drawing from all. Beyond, the k-th
observation takes a random one of k places if that is one of the buffer's, and is dropped otherwise: so at any time
every observation collected so far is in the buffer with the same probability.
"""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from service.inference.arrays import FloatArray

SlotArray = npt.NDArray[np.int64]


def replay_slots(seed: int, first: int, count: int, limit: int) -> SlotArray:
    """The places of observations first, first + 1, ... in a buffer of `limit` places; -1 for none.

    They depend on (seed, number) only.
    """
    numbers = np.arange(first, first + count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        uniform = _scrambled(numbers + _scrambled(np.array([seed], np.uint64))) >> np.uint64(11)
    places = (uniform.astype(np.float64) * 2.0**-53 * (numbers + np.uint64(1))).astype(np.int64)
    places = np.where(numbers < limit, numbers.astype(np.int64), places)
    return np.where(places < limit, places, -1)


def _scrambled(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each 64-bit number to another that looks random (the finaliser of splitmix64)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class ReplayBuffer:
    """The observations that have a place, in memory."""

    def __init__(self, dimension: int, target_shape: tuple[int, ...]) -> None:
        self._x: FloatArray = np.empty((0, dimension))
        self._y: FloatArray = np.empty((0, *target_shape))
        self._size = 0
        self._lock = threading.Lock()  # the loop puts, the rounds' thread takes

    def __len__(self) -> int:
        return self._size

    def put(self, first: int, x: FloatArray, y: FloatArray, slots: SlotArray | None) -> None:
        """Put a batch in its places: its slots, or its own numbers."""
        places = np.arange(first, first + len(y)) if slots is None else slots
        if not len(places):
            return
        with self._lock:
            self._size = max(self._size, int(places.max()) + 1)
            if self._size > len(self._y):
                room = max(self._size, 2 * len(self._y), 1024)
                self._x, self._y = _grown(self._x, room), _grown(self._y, room)
            self._x[places], self._y[places] = x, y  # of rows that share a place the last one stays

    def take(self, rows: Any) -> tuple[FloatArray, FloatArray]:
        """Copies of these rows."""
        with self._lock:
            return self._x[rows], self._y[rows]


def _grown(array: FloatArray, room: int) -> FloatArray:
    larger = np.empty((room, *array.shape[1:]))
    larger[: len(array)] = array
    return larger
