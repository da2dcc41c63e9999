"""Observations on their way to an agent: marks, and streams that mark their batches themselves."""

import asyncio
from typing import Any, NamedTuple, Protocol

import numpy as np

from service.errors import DataError, SettingError
from service.inference.arrays import FloatArray
from service.wire.answers import Stored, StreamPosition
from service.wire.configuration import check_name
from service.wire.observations import Observations


class Mark(NamedTuple):
    """Who sends a batch, and the how manyeth of theirs it is, from 0."""

    client: str
    sequence: int


class Poster(Protocol):
    """What a stream needs of an agent's client."""

    async def position(self, client: str) -> StreamPosition: ...

    async def post(
        self, x: Any, y: Any, mark: Mark | None = None, end: bool = False, position: Any = None
    ) -> Stored: ...

    async def end(self, mark: Mark | None = None) -> Stored: ...


class ObservationStream:
    """One client's marked batches to one agent, one after the other. A retry of a batch never doubles it."""

    def __init__(self, agent: Poster, client: str) -> None:
        try:
            self.client = check_name(client)
        except ValueError as fault:
            raise SettingError(f"client {client!r}: {fault}") from None
        self._agent = agent
        self._next: int | None = None
        self._turn = asyncio.Lock()  # two batches must not have one number

    async def next_sequence(self) -> int:
        """How many batches the agent has of this stream: where to go on."""
        if self._next is None:
            self._next = (await self._agent.position(self.client)).next_sequence
        return self._next

    async def post(self, x: Any, y: Any, end: bool = False, position: Any = None) -> Stored:
        """The next batch; on disk when this returns. position: where the one who observes stands, to be shown."""
        async with self._turn:
            stored = await self._agent.post(x, y, Mark(self.client, await self.next_sequence()), end, position)
            self._next = stored.next_sequence
        return stored

    async def end(self) -> None:
        """Say that no more will come."""
        async with self._turn:
            self._next = (await self._agent.end(Mark(self.client, await self.next_sequence()))).next_sequence


def as_observations(x: Any, y: Any, end: bool = False) -> Observations:
    """Points and targets as arrays: rows of them, or a single point with its target."""
    try:
        points, targets = np.asarray(x, float), np.asarray(y, float)
    except (TypeError, ValueError):
        raise DataError("x and y must be numbers: rows of coordinates, and a target for each") from None
    if points.ndim == 1:
        points, targets = points[None], targets[None]
    if points.ndim != 2 or targets.ndim not in (1, 2) or len(points) != len(targets):
        raise DataError(
            f"x of shape {points.shape} and y of shape {targets.shape}: x has a row of coordinates for every target"
        )
    return Observations(points, targets, end)


def as_position(position: Any) -> str:
    """The coordinates of a place as a query has them; every digit of them."""
    try:
        coordinates = np.asarray(position, float)
    except (TypeError, ValueError):
        coordinates = np.empty(())
    if coordinates.ndim != 1:
        raise DataError(f"position must be the coordinates of one place, like [1.5, 2.0], not {position!r}")
    return ",".join(map(repr, coordinates.tolist()))


def as_points(x: Any) -> FloatArray:
    """Rows of coordinates as an array; a single point makes one row."""
    try:
        points = np.asarray(x, float)
    except (TypeError, ValueError):
        points = np.empty(())
    if points.ndim == 1:
        points = points[None]
    if points.ndim != 2:
        raise DataError("x must be rows of coordinates, all of one length")
    return points
