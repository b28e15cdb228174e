"""Changes of a tenant's document as operators ask for them (SPEC.md C1).

All are functions of what stands, of what is asked and of the time. A change names the revision that
it was made for, where its caller has seen one: of two operators the later one is refused, and
neither loses what the other one said.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import msgspec

from crawlfleet.config import validation
from crawlfleet.config.documents.biz import Tenant
from crawlfleet.config.parameters import MAX_DOCUMENT_BYTES
from crawlfleet.config.publishing import MANAGED_FIELDS, compact
from crawlfleet.kernel.errors import ConflictError, InvalidRequestError, NotFoundError, Problem
from crawlfleet.kernel.names import CONFIG_BIZS, CONFIG_TENANTS
from crawlfleet.kernel.validation import decode

#: How long an old key stays valid beside a new one, unless a call says otherwise, and at most.
OVERLAP: Final = timedelta(days=1)
MOST_OVERLAP: Final = timedelta(days=30)
#: A key that no document has after this long is a leftover of a call that died.
LEFTOVER_AFTER: Final = timedelta(minutes=5)
#: Keys of a tenant that may be retiring at once.
_MOST_RETIRING: Final = 16
#: Says which call changes a field that settings may not.
_OTHER_CALLS: Final = {
    "managed": "is set by the calls themselves",
    "suspended": "is changed by suspending and resuming the tenant",
    "removing": "is changed by removing the tenant",
    "api_keys": "are changed by rotating the key",
    "retiring_keys": "are changed by rotating the key",
}


class ManagedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was made for a tenant: its id, and when. The key itself is shown once."""

    id: str
    tenant: str
    made_at: datetime


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant as it stands in the configuration."""

    name: str
    text: str
    document: Tenant
    bizs: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """Name the text: another one has another revision."""
        return blake2b(compact(self.text).encode(), digest_size=8).hexdigest()

    @property
    def fields(self) -> dict[str, Any]:
        """Return the document as it is written."""
        fields: dict[str, Any] = msgspec.json.decode(self.text)
        return fields

    @property
    def settings(self) -> dict[str, Any]:
        """Return what settings say: all but the fields that have calls of their own."""
        return {name: value for name, value in self.fields.items() if name not in MANAGED_FIELDS}


class Rotation(msgspec.Struct, frozen=True):
    """A document with a new key, and the ids of those that have ended."""

    text: str
    ended: tuple[str, ...]


def path_of(tenant: str) -> str:
    """Return the path of a tenant's document."""
    return f"{CONFIG_TENANTS}/{tenant}"


def tenants_in(documents: Mapping[str, str]) -> dict[str, Standing]:
    """Read the tenants among documents, by name; those that cannot be read are left out.

    >>> [(one.name, one.bizs) for one in tenants_in({"tenants/a": "{}", "bizs/a/b": ""}).values()]
    [('a', ('b',))]
    """
    found = {}
    for path, text in sorted(documents.items()):
        kind, _, name = path.partition("/")
        document = decode(text, Tenant)[0] if kind == CONFIG_TENANTS else None
        if document is None:
            continue
        below = f"{CONFIG_BIZS}/{name}/"
        bizs = tuple(at.removeprefix(below) for at in sorted(documents) if at.startswith(below))
        found[name] = Standing(name=name, text=text, document=document, bizs=bizs)
    return found


def standing_of(documents: Mapping[str, str], tenant: str, expected: str | None = None) -> Standing:
    """Return a tenant, which must be the ``expected`` revision where one is given.

    Raises:
        NotFoundError: there is none of that name, or none that can be read.
        ConflictError: somebody has changed it meanwhile.
    """
    path, bizs = path_of(tenant), f"{CONFIG_BIZS}/{tenant}/"
    own = {at: text for at, text in documents.items() if at == path or at.startswith(bizs)}
    standing = tenants_in(own).get(tenant)
    if standing is None:
        raise NotFoundError(f"there is no document of a tenant {tenant[:64]!r}")
    if expected is not None and expected != standing.revision:
        said = f"{tenant} was changed meanwhile: its revision is {standing.revision}, not "
        raise ConflictError(f"{said}{expected[:64]!r}; look at it, and ask again")
    return standing


def added(settings: Mapping[str, Any], key_id: str) -> str:
    """Write the document of a new tenant with one key.

    Raises:
        InvalidRequestError: a setting is wrong; names each.
    """
    fields = {**_checked({}, settings), "managed": True, "api_keys": [key_id]}
    return msgspec.json.encode(fields).decode()


def changed(standing: Standing, settings: Mapping[str, Any]) -> str:
    """Merge settings into a tenant's document (RFC 7396): what is null there goes.

    Raises:
        InvalidRequestError: a setting is wrong; names each.
    """
    return msgspec.json.encode(_checked(standing.fields, settings)).decode()


def switched(standing: Standing, *, suspended: bool) -> str:
    """Suspend or resume a tenant. From here on calls alone change that, and no file.

    Raises:
        ConflictError: its removal has gone too far to be given up.
    """
    fields = {**standing.fields, "managed": True, "suspended": suspended}
    if not suspended:
        must_stay(standing)
        del fields["suspended"]
        fields.pop("removing", None)
    return msgspec.json.encode(fields).decode()


def must_stay(standing: Standing) -> None:
    """Pass a tenant of which nothing is deleted yet.

    Raises:
        ConflictError: its removal is under way, and only goes on.
    """
    removing = standing.document.removing
    if removing is not None and removing.withdrawn_at is not None:
        raise ConflictError(f"{standing.name} is being removed, and some of it is gone already")


def rotated(standing: Standing, key_id: str, now: datetime, overlap: timedelta) -> Rotation:
    """Give a tenant a new key; its others end after the overlap, and those that have ended go.

    >>> standing = standing_of({"tenants/a": '{"api_keys": ["old"]}'}, "a")
    >>> rotation = rotated(standing, "new", datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1))
    >>> rotation.text
    '{"api_keys":["new"],"managed":true,"retiring_keys":{"old":"2026-01-01T01:00:00Z"}}'

    Raises:
        ConflictError: more keys would be valid at once than may be, or the tenant is going.
    """
    must_stay(standing)
    ends_at = now + overlap
    moments = dict(standing.document.retiring_keys)
    for key in standing.document.api_keys:
        moments[key] = ends_at
    ended = tuple(sorted(key for key, moment in moments.items() if moment <= now))
    retiring = {key: _written(moment) for key, moment in moments.items() if moment > now}
    if len(retiring) > _MOST_RETIRING:
        soonest = min(moment for moment in moments.values() if moment > now)
        said = f"{len(retiring)} keys would end later, and {_MOST_RETIRING} may at once: the next "
        raise ConflictError(f"{said}one ends at {_written(soonest)}; or have no overlap")
    fields = {**standing.fields, "api_keys": [key_id], "managed": True}
    fields["retiring_keys"] = retiring
    if not retiring:
        del fields["retiring_keys"]
    return Rotation(msgspec.json.encode(fields).decode(), ended)


def leftovers(
    keys: list[ManagedKey], documents: Mapping[str, str], now: datetime
) -> list[ManagedKey]:
    """Find the keys that no document has: whoever made them died before it was written."""
    known = {
        key
        for one in tenants_in(documents).values()
        for key in (*one.document.api_keys, *one.document.retiring_keys)
    }
    old = now - LEFTOVER_AFTER
    return [key for key in keys if key.id not in known and key.made_at <= old]


def _checked(fields: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    problems = [
        Problem(f"settings.{name}", said) for name, said in _OTHER_CALLS.items() if name in settings
    ]
    if problems:
        raise InvalidRequestError(problems)
    try:
        wanted: dict[str, Any] = _merged(fields, settings)
        content = msgspec.json.encode(wanted)
    except RecursionError:
        raise InvalidRequestError.of("settings", "are nested too deeply") from None
    if len(content) > MAX_DOCUMENT_BYTES:
        said = f"make a document of {len(content):,} bytes; it may have {MAX_DOCUMENT_BYTES:,}"
        raise InvalidRequestError.of("settings", said)
    document, wrong = decode(content, Tenant)
    if document is not None:
        wrong = tuple(validation.tenant_problems(document))
    if wrong:
        raise InvalidRequestError(
            Problem(f"settings.{one.field}".rstrip("."), one.message) for one in wrong
        )
    return wanted


def _merged(standing: Any, change: Any) -> Any:
    """Merge as RFC 7396 has it."""
    if not isinstance(change, Mapping):
        return change
    found = dict(standing) if isinstance(standing, Mapping) else {}
    for name, value in change.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), value)
    return found


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
