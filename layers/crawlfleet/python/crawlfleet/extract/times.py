"""Dates as sites write them, to ISO 8601 (a step of ``transforms``)."""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from crawlfleet.extract.bounds import UnreadableError
from crawlfleet.model.step import DateFormats

#: A date is no longer than that.
_LONGEST: Final = 100


def compile_date(step: DateFormats) -> Callable[[str], str]:
    """What reads a date by the first format that fits.

    Raises:
        ValueError: ``key: what is wrong with it``.

    >>> compile_date(DateFormats(formats=("%d.%m.%Y",), timezone="Europe/Berlin"))("5.3.2024")
    '2024-03-05T00:00:00+01:00'
    """
    for number, written in enumerate(step.formats):
        if (why := _mistake(written)) is not None:
            raise ValueError(f"formats[{number}]: {why}")
    zone = _zone(step.timezone)

    def change(text: str) -> str:
        for written in step.formats if len(text) <= _LONGEST else ():
            try:
                at = datetime.strptime(text.strip(), written)  # noqa: DTZ007  it gets its zone below
                return (at if at.tzinfo else at.replace(tzinfo=zone)).isoformat()
            except (ValueError, OverflowError):
                continue
        raise UnreadableError(f"{text[:80]!r} is no date written so")

    return change


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"timezone: {name!r} is no time zone, like Europe/Paris") from error


def _mistake(written: str) -> str | None:
    try:
        sample = datetime(2024, 3, 5, 10, 30, tzinfo=UTC).strftime(written)
        datetime.strptime(sample, written)  # noqa: DTZ007  only whether it can be read
    except Exception as error:  # noqa: BLE001  it raises what its regular expressions do
        return f"not a format of dates: {error}"[:200]
    return None if "%" in written else "names no part of a date, such as %d"
