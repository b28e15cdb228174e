"""What documents of the config centre are made of: their shape, names and numbers (SPEC.md A3)."""

from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.words import Words

#: Tenants, bizs, nodes, schedules. No underscore: it separates them in database names.
Slug = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z"),
    Words("up to 32 of a-z, 0-9 and -, a letter first"),
]
#: Collections and queues.
StoreName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}\Z"),
    Words("up to 32 of a-z, 0-9, _ and -, a letter first"),
]
#: Short enough that ``cf_{tenant}_{database}`` stays below MongoDB's 64 bytes.
DatabaseName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_-]{0,23}\Z"),
    Words("up to 24 of a-z, 0-9, _ and -, a letter first"),
]
#: Rules and spiders.
RuleName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"),
    Words("up to 64 letters, digits, _, . and -, a letter or a digit first"),
]
#: A host as it stands in a URL: lower case, no port; an IPv6 address in brackets.
HostName = Annotated[
    str,
    Meta(pattern=r"^(?:[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])\Z"),
    Words("a host in lower case without a port, such as shop.example"),
]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class Document(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What every config document, and each part of one, shares: unknown keys are mistakes."""
