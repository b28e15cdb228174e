"""A measured value on its way to CloudWatch."""

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
    """One value. ``fine`` asks for 1 s resolution, which costs more: for what needs it."""

    name: str
    value: float
    unit: Unit = Unit.COUNT
    fine: bool = False
