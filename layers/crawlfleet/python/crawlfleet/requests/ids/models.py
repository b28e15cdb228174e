"""The worker number that an id-issuer holds."""

import msgspec


class HeldNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A leased Snowflake worker number. ``mark``: every position below it is spent."""

    number: int
    fence: str
    mark: int
