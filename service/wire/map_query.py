"""Which map: what the address of one may say, and what a client may ask for."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.errors import SettingError
from service.wire.map_files import Nav2Mode

Layer = Literal["probability", "mean", "variance", "entropy", "latent_mean", "latent_variance"]
Format = Literal["png", "npz", "nav2"]

_Finite = Annotated[float, Field(allow_inf_nan=False)]


class MapQuery(BaseModel):
    """What `GET /v1/map` may be asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Annotated[Format, Field(description="png, npz, or nav2: a zip of image and YAML.")] = "png"
    layer: Annotated[
        Layer | None, Field(description="What to show; by default the probability, or the mean. nav2: probability.")
    ] = None
    bounds: Annotated[
        str | None,
        Field(max_length=200, description="left,bottom,right,top in the model's units; by default all of it."),
    ] = None
    resolution: Annotated[
        _Finite | None, Field(gt=0, description="The side of a pixel; by default 300 pixels fit the longer side.")
    ] = None
    low: Annotated[_Finite | None, Field(description="png: the value of the first colour.")] = None
    high: Annotated[_Finite | None, Field(description="png: the value of the last colour.")] = None
    mode: Annotated[Nav2Mode, Field(description="nav2: how its cells are to be read.")] = "trinary"
    occupied_thresh: Annotated[_Finite, Field(ge=0, le=1, description="nav2: above it a cell is occupied.")] = 0.65
    free_thresh: Annotated[_Finite, Field(ge=0, le=1, description="nav2: below it a cell is free.")] = 0.25

    @property
    def box(self) -> tuple[float, float, float, float] | None:
        """left, bottom, right, top."""
        if self.bounds is None:
            return None
        try:
            left, bottom, right, top = (float(number) for number in self.bounds.split(","))
        except ValueError:
            raise SettingError("bounds are four numbers: left,bottom,right,top") from None
        return left, bottom, right, top
