"""Maps for the browser: all agents in one scale of colours, and where each differs from the others."""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from client.dashboard.agent_watch import AgentWatch
from client.dashboard.layers import Box, DrawnLayer, Layers
from service.errors import DelboError, NoMapError, SettingError
from service.inference.arrays import FloatArray
from service.wire.map_files import to_png
from service.wire.map_query import Layer
from service.wire.palette import DIVERGING, SEQUENTIAL

ShownLayer = Literal["expected", "variance", "entropy", "disagreement"]


class MapPicture(NamedTuple):
    """One agent's map as a PNG: `tag` names it, `box` says where it lies, low and high what its colours mean."""

    tag: str
    box: Box
    low: float
    high: float
    round: int
    png: Callable[[], bytes]


class NothingToCompareError(DelboError):
    """No other agent shows what this one could be compared with."""


class _Scale(NamedTuple):
    palette: bytes
    low: float
    high: float


class Pictures:
    """Makes the pictures of what agents show."""

    def __init__(self, agents: Sequence[AgentWatch], layers: Layers) -> None:
        self._agents, self._layers = agents, layers

    async def get(self, agent: AgentWatch, shown: ShownLayer, box: Box | None) -> MapPicture:
        """One agent's picture, in the scale that all agents' have."""
        if agent.facts is not None and agent.facts.kind != "map":
            raise NoMapError("this model has no map: it is not of two coordinates and one output")
        binary = agent.facts is not None and agent.facts.is_binary
        layer = _layer(shown, binary)
        own = await self._layers.get(agent, layer, box)
        if shown == "expected" and binary:  # the agent's own picture has this very scale
            return _picture(own, (own,), _Scale(DIVERGING, 0.0, 1.0), lambda: own.file.content)
        if shown == "entropy" and binary:
            scale = _Scale(SEQUENTIAL, 0.0, math.log(2))
            return _picture(own, (own,), scale, lambda: _drawn(own.values, scale))
        everybody = await self._layers.of_all(layer, box) | {agent.number: own}
        # A part has the colours of the whole around it.
        ranged = [*(everybody if box is None else self._layers.known(layer, None) or everybody).values()]
        low, high = min(one.low for one in ranged), max(one.high for one in ranged)
        if shown == "disagreement":
            others = [everybody[one.number] for one in self._others(agent) if one.number in everybody]
            return _disagreement(own, others, 1.0 if binary else high - low)
        scale = _Scale(SEQUENTIAL, 0.0 if shown == "variance" else low, high)
        return _picture(own, (own,), scale, lambda: _drawn(own.values, scale))

    def _others(self, agent: AgentWatch) -> list[AgentWatch]:
        return [other for other in self._agents if other is not agent and other.is_there]


def _layer(shown: ShownLayer, binary: bool) -> Layer:
    if shown in ("expected", "disagreement"):
        return "probability" if binary else "mean"
    return "latent_variance" if shown == "variance" else "entropy"


def _picture(own: DrawnLayer, parts: tuple[DrawnLayer, ...], scale: _Scale, png: Callable[[], bytes]) -> MapPicture:
    content = " ".join([*(one.file.tag for one in parts), repr(scale.low), repr(scale.high), scale.palette.hex()])
    tag = f'"{hashlib.blake2b(content.encode(), digest_size=12).hexdigest()}"'
    return MapPicture(tag, own.box, scale.low, scale.high, own.file.round, png)


def _disagreement(own: DrawnLayer, others: Sequence[DrawnLayer], extent: float) -> MapPicture:
    """How far an agent is from the mean of the others that answer, at every pixel: |p_i - mean_{j != i} p_j|.

    extent: what the largest and the smallest value of all are apart, for one scale of all agents.
    """
    alike = [one for one in others if one.box == own.box and one.pixels.shape == own.pixels.shape]
    if not alike:
        raise NothingToCompareError("there is nobody to differ from: no other agent shows a map of this part now")
    scale = _Scale(SEQUENTIAL, 0.0, max(extent, 1e-12))

    def png() -> bytes:
        return _drawn(np.abs(own.values - np.mean([one.values for one in alike], axis=0)), scale)

    return _picture(own, (own, *alike), scale, png)


def _drawn(values: FloatArray, scale: _Scale) -> bytes:
    """The first row of these values is the top; to_png has the lowest y first."""
    return to_png(values[::-1], scale.palette, scale.low, scale.high, {})


def parse_box(text: str | None) -> Box | None:
    """left,bottom,right,top of an address."""
    if text is None:
        return None
    try:
        left, bottom, right, top = (float(number) for number in text.split(","))
    except ValueError:
        raise SettingError("box is four numbers: left,bottom,right,top") from None
    if not (math.isfinite(right - left) and math.isfinite(top - bottom) and right > left and top > bottom):
        raise SettingError("box is left,bottom,right,top, and must enclose something")
    return left, bottom, right, top
