"""Time, spelled one way: aware UTC datetimes inside (``_at``), epoch milliseconds on the wire."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Epoch milliseconds of an aware datetime, rounded down (what BSON keeps).

    >>> to_ms(datetime(2026, 1, 1, tzinfo=UTC))
    1767225600000
    """
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    """Aware UTC datetime of epoch milliseconds, exact to the millisecond.

    >>> from_ms(1767225600123).isoformat()
    '2026-01-01T00:00:00.123000+00:00'
    """
    return _EPOCH + ms * _MILLISECOND
