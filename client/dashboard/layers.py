"""Agents' maps as numbers: asked for once a period whoever looks, and kept when their agent is gone."""

import asyncio
import io
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image

from client.answers import MapFile
from client.dashboard.agent_watch import AgentWatch
from service.errors import AgentUnreachableError, DelboError, WireError
from service.inference.arrays import FloatArray
from service.wire.map_query import Layer, MapQuery

Box = tuple[float, float, float, float]

_MOST_KEPT = 256  # maps of some 100 kB, or as many as all agents have in six layers and parts
_FRESH = 0.9  # of a period: a little less, so that whoever asks every period gets news
_PIXELS = 300  # along the longer side of a box


@dataclass(frozen=True, eq=False)
class DrawnLayer:
    """One agent's map of one kind: a byte for each pixel, from low to high; the first row is the top."""

    file: MapFile
    pixels: npt.NDArray[np.uint8]
    low: float
    high: float
    left: float
    bottom: float
    resolution: float

    @property
    def box(self) -> Box:
        """left, bottom, right, top of the outermost pixels."""
        height, width = self.pixels.shape
        return (
            self.left,
            self.bottom,
            self.left + width * self.resolution,
            self.bottom + height * self.resolution,
        )

    @property
    def values(self) -> FloatArray:
        """The numbers, as exactly as 256 steps tell them."""
        values: FloatArray = self.low + self.pixels.astype(np.float64) * ((self.high - self.low) / 255)
        return values


@dataclass
class _Kept:
    layer: DrawnLayer | None = None
    asked_at: float = float("-inf")
    fault: DelboError | None = None  # the agent's answer to the last question
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Layers:
    """Asks agents for maps."""

    def __init__(self, agents: Sequence[AgentWatch], period_s: float) -> None:
        self._agents, self._period_s = agents, period_s
        self._most = max(_MOST_KEPT, 6 * len(agents))
        self._late: set[asyncio.Task[DrawnLayer | None]] = set()
        self._kept: OrderedDict[tuple[int, Layer, Box | None], _Kept] = OrderedDict()

    async def get(self, agent: AgentWatch, layer: Layer, box: Box | None) -> DrawnLayer:
        """The agent's map, at most a period old; of one that does not answer, the last that it gave."""
        kept = self._place(agent.number, layer, box)
        if not agent.is_there and kept.layer is not None:
            return kept.layer
        async with kept.turn:  # who comes meanwhile finds what the first has brought
            now = asyncio.get_running_loop().time()
            if agent.is_there and now - kept.asked_at >= _FRESH * self._period_s:
                kept.asked_at, kept.fault = now, None
                try:
                    await self._renew(kept, agent, layer, box)
                except DelboError as fault:
                    kept.fault = fault
            if kept.fault is not None:
                raise kept.fault
            if kept.layer is None:
                raise AgentUnreachableError(f"{agent.name} has not shown a map yet: {agent.reason or agent.state}")
            return kept.layer

    async def of_all(self, layer: Layer, box: Box | None) -> dict[int, DrawnLayer]:
        """Every agent's map, as far as there is one, by the agents' numbers; of who is slow, the last."""
        asked = [asyncio.ensure_future(self._or_none(agent, layer, box)) for agent in self._agents]
        _, late = await asyncio.wait(asked, timeout=self._period_s)
        for task in late:  # each ends by its own deadline
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        return self.known(layer, box)

    def known(self, layer: Layer, box: Box | None) -> dict[int, DrawnLayer]:
        """The last that there was of every agent, without asking."""
        kept = {agent.number: self._kept.get((agent.number, layer, box)) for agent in self._agents}
        return {number: one.layer for number, one in kept.items() if one is not None and one.layer is not None}

    async def _or_none(self, agent: AgentWatch, layer: Layer, box: Box | None) -> DrawnLayer | None:
        try:
            return await self.get(agent, layer, box)
        except DelboError:
            return None

    async def _renew(self, kept: _Kept, agent: AgentWatch, layer: Layer, box: Box | None) -> None:
        known = None if kept.layer is None else kept.layer.file.tag
        try:
            file = await agent.client().map(_query(layer, box), known)
        except AgentUnreachableError:
            if kept.layer is None:
                raise
            return  # the old one stays
        if file is not None:
            kept.layer = await asyncio.to_thread(read_layer, file)

    def _place(self, number: int, layer: Layer, box: Box | None) -> _Kept:
        key = (number, layer, box)
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            # The whole map is what is shown of an agent that is gone.
            others = [other for other in self._kept if other != key]
            del self._kept[next((other for other in others if other[2] is not None), others[0])]
        return kept


def _query(layer: Layer, box: Box | None) -> MapQuery:
    if box is None:
        return MapQuery(layer=layer)
    left, bottom, right, top = box
    bounds = ",".join(map(repr, box))
    return MapQuery(layer=layer, bounds=bounds, resolution=max(right - left, top - bottom) / _PIXELS)


def read_layer(file: MapFile) -> DrawnLayer:
    """The numbers of an agent's picture: its palette is a scale, and its notes say of what."""
    try:
        with Image.open(io.BytesIO(file.content)) as image:
            notes = getattr(image, "text", {})
            pixels = np.asarray(image) if image.mode == "P" else np.empty(0, np.uint8)
        left, bottom = map(float, notes["origin"].split())
        low, high, resolution = (float(notes[name]) for name in ("low", "high", "resolution"))
    except (OSError, KeyError, ValueError, Image.DecompressionBombError):
        raise WireError("map", "an agent's map cannot be read") from None
    if pixels.ndim != 2:
        raise WireError("map", "an agent's map has no palette")
    return DrawnLayer(file, pixels, low, high, left, bottom, resolution)
