"""How calls are addressed: paths with quoted segments, parameters as texts."""

from datetime import UTC, datetime
from urllib.parse import quote

from crawlfleet.errors import InvalidRequestError


def path_of(biz: str, *rest: str) -> str:
    """The path of something below a biz; each segment is quoted and must be one.

    >>> path_of("news", "requests", "12 3")
    '/v1/news/requests/12%203'
    """
    for segment in (biz, *rest):
        if segment.strip() in {"", ".", ".."}:
            raise InvalidRequestError.of(
                "biz" if segment is biz else "id", f"{segment!r} cannot be a part of an address"
            )
    return "/v1/" + "/".join(quote(segment, safe="") for segment in (biz, *rest))


def parameters(**given: str | int | None) -> dict[str, str]:
    """The parameters that are given, as texts."""
    return {name: str(value) for name, value in given.items() if value is not None}


def moment_of(value: datetime | str | None, field: str = "since") -> str | None:
    """A moment as the API reads it; a text is passed on for the API to judge."""
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise InvalidRequestError.of(field, "needs a time zone")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
