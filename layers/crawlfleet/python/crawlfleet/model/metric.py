"""A measured value on its way to CloudWatch."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Unit(StrEnum):
    """CloudWatch's spelling of units."""

    COUNT = "Count"
    SECONDS = "Seconds"
    BYTES = "Bytes"
    PER_SECOND = "Count/Second"
    NONE = "None"


class Metric(msgspec.Struct, frozen=True):
    """One value. ``fine`` asks for 1 s resolution: for what is counted by the second."""

    name: str
    value: float
    unit: Unit = Unit.COUNT
    fine: bool = False


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one moment under the same dimensions, of which the stage is always one more."""

    at: datetime
    metrics: tuple[Metric, ...]
    dimensions: dict[str, str] = {}
