"""The layout of the config centre's parameters (SPEC.md A3): documents, their parts, the snapshot.

A document that fits is the value of its parameter. A larger one is compressed and cut into parts
below ``{path}/parts/{digest}/``; its own parameter then is the head, ``{"digest": d, "parts": n}``.
Parts never change: a new version has another digest, so a reader sees the old version or the new
one, or that it came between and must read again.

SSM lets an account read 40 times a second, however many functions start. So a push also writes all
documents once more as one snapshot, compressed and cut into slots, ten of which are read in one
call with the revision. The revision ends with the snapshot's digest: slots of another revision, or
what somebody put in their place, are not taken for it. Slots that the standing revision uses are
not written, so that a reader in the middle of a push finds it whole. Without a snapshot of the
revision, as before there were any, the documents are read one by one: they are what counts.
"""

import base64
import re
import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from crawlfleet.kernel import errors
from crawlfleet.kernel.names import CONFIG_PARTS, CONFIG_REVISION, CONFIG_SNAPSHOT, CONFIG_STAGE

#: Largest value of a standard parameter, in bytes. Those of the advanced tier, twice as large, cost
#: 0.05 USD a month each.
MAX_PARAMETER_BYTES: Final = 4096
#: Largest document; a few hundred rules are a tenth of it.
MAX_DOCUMENT_BYTES: Final = 2_000_000
#: Most bytes of all documents together that a snapshot is made of.
MAX_SNAPSHOT_BYTES: Final = 32_000_000
#: Names that GetParameters takes at once.
NAMES_AT_ONCE: Final = 10
#: Bytes of a slot before its share of the content: digest, number, count.
_SLOT_HEAD_BYTES: Final = 48
_SLOT_BYTES: Final = MAX_PARAMETER_BYTES - _SLOT_HEAD_BYTES


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a large document: the digest of its text, and how many parts hold it."""

    digest: str
    parts: int


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The documents read below a root: texts by path, such as ``bizs/acme/shop``.

    ``parts`` names all parts, ``problems`` has the documents that could not be put together;
    ``slots`` are the values of the snapshot's, by name.
    """

    documents: dict[str, str]
    parts: frozenset[str] = frozenset()
    problems: tuple[errors.Problem, ...] = ()
    slots: dict[str, str] = {}


class Encoded(msgspec.Struct, frozen=True):
    """A document as parameters: the value at its path, and its parts by name below the root."""

    head: str
    parts: dict[str, str]


def encode(path: str, text: str) -> Encoded:
    """Cut a document into parameters of a size that SSM takes."""
    content = text.encode()
    # SSM reads {{...}} in a value as a reference to another parameter and refuses it.
    if 0 < len(content) <= MAX_PARAMETER_BYTES and "{{" not in text:
        return Encoded(text, {})
    digest = blake2b(content, digest_size=10).hexdigest()
    packed = base64.b64encode(zlib.compress(content, 9)).decode()
    cuts = range(0, len(packed), MAX_PARAMETER_BYTES)
    parts = {
        f"{path}/{CONFIG_PARTS}/{digest}/{number}": packed[start : start + MAX_PARAMETER_BYTES]
        for number, start in enumerate(cuts)
    }
    head = msgspec.json.encode(Head(digest=digest, parts=len(parts))).decode()
    return Encoded(head, parts)


def assemble(values: Mapping[str, str]) -> Stored:
    """Invert :func:`encode` over a whole tree. Parts that no head names are left over."""
    heads = {name: value for name, value in values.items() if _is_document(name)}
    slots = {name: text for name, text in values.items() if name.startswith(f"{CONFIG_SNAPSHOT}/")}
    documents: dict[str, str] = {}
    problems: list[errors.Problem] = []
    for path, value in heads.items():
        if path == CONFIG_REVISION:
            continue
        head = _head(value)
        if head is None:
            documents[path] = value
            continue
        text = _join(path, head, values)
        if text is None:
            message = "its parts are incomplete or damaged; push it again"
            problems.append(errors.Problem(path, message))
        else:
            documents[path] = text
    return Stored(
        documents=documents,
        parts=frozenset(values.keys() - heads.keys() - slots.keys()),
        problems=tuple(problems),
        slots=slots,
    )


def _join(path: str, head: Head, values: Mapping[str, str]) -> str | None:
    names = [f"{path}/{CONFIG_PARTS}/{head.digest}/{number}" for number in range(head.parts)]
    try:
        packed = base64.b64decode("".join(values[name] for name in names), validate=True)
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(packed, MAX_DOCUMENT_BYTES)
        text = content.decode()
    except (KeyError, ValueError, zlib.error):
        return None
    whole = unpacker.eof and blake2b(content, digest_size=10).hexdigest() == head.digest
    return text if whole else None


def _head(value: str) -> Head | None:
    try:
        head = msgspec.json.decode(value, type=Head)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return head if 0 <= head.parts <= MAX_DOCUMENT_BYTES // 1024 else None


def _is_document(name: str) -> bool:
    """Return whether a name is no part's: a part's name is longer."""
    pieces = name.split("/")
    depth = 1 if pieces[0] == CONFIG_STAGE else 2 if pieces[0] == "tenants" else 3
    return not (len(pieces) == depth + 3 and pieces[depth] == CONFIG_PARTS)


# ---- the snapshot --------------------------------------------------------------------------------


def pack(documents: Mapping[str, str]) -> bytes:
    """Compress documents, texts by path, into the content of a snapshot."""
    return zlib.compress(msgspec.json.encode(dict(sorted(documents.items()))), 9)


def digest_of(content: bytes) -> str:
    """Return the digest that a revision with this snapshot ends with."""
    return blake2b(content, digest_size=16).hexdigest()


def unpack(revision: str, content: bytes) -> dict[str, str] | None:
    """Invert :func:`pack`; None where the content is not that of the revision."""
    if digest_of(content) != _digest_in(revision):
        return None
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(content, MAX_SNAPSHOT_BYTES)
        return msgspec.json.decode(text, type=dict[str, str]) if unpacker.eof else None
    except (zlib.error, msgspec.DecodeError, UnicodeError):
        return None


def _digest_in(revision: str) -> str:
    return revision.rpartition("-")[2]


#: What the name of a revision begins with: when it was made, in UTC. Of two revisions the later one
#: is the newer one, whatever the clocks of those who pushed (``in_force``).
REVISION_TIME: Final = "%Y%m%dT%H%M%S.%f"
_MADE_AT: Final = re.compile(r"\d{8}T\d{6}\.\d{3}(?=Z-)")


def name_revision(standing: str | None, now: datetime, digest: str) -> str:
    """Name a revision by its time, which is later than the standing one's, and its digest.

    >>> name_revision("20260301T120000.007Z-ab", datetime(2026, 3, 1, 11, tzinfo=UTC), "cd")
    '20260301T120000.008Z-cd'
    """
    made = made_at(standing or "")
    if made is not None:
        now = max(now.astimezone(UTC), made + timedelta(milliseconds=1))
    return f"{now.strftime(REVISION_TIME)[:-3]}Z-{digest}"


def made_at(revision: str) -> datetime | None:
    """Return when a revision was made, by its name; None where that does not tell.

    >>> made_at("20260301T120000.007Z-ab"), made_at("mine")
    (datetime.datetime(2026, 3, 1, 12, 0, 0, 7000, tzinfo=datetime.timezone.utc), None)
    """
    found = _MADE_AT.match(revision)
    try:
        return datetime.strptime(found[0], REVISION_TIME).replace(tzinfo=UTC) if found else None
    except ValueError:  # digits that are no time
        return None


def is_older(revision: str, other: str) -> bool:
    """Return whether a revision was made before another one, as far as their names tell.

    >>> is_older("20260301T120000.007Z-ab", "20260301T120000.008Z-cd"), is_older("mine", "yours")
    (True, False)
    """
    made, before = _MADE_AT.match(revision), _MADE_AT.match(other)
    return made is not None and before is not None and made[0] < before[0]


def slot_names(numbers: Iterable[int]) -> list[str]:
    """Return the names of slots below the root."""
    return [f"{CONFIG_SNAPSHOT}/{number}" for number in numbers]


def slots(content: bytes, standing: str | None, there: Mapping[str, str]) -> dict[str, str]:
    """Cut a snapshot into slots by name, leaving alone those ``there`` of the standing revision."""
    digest, text = digest_of(content), base64.b64encode(content).decode()
    cuts = [text[start : start + _SLOT_BYTES] for start in range(0, len(text), _SLOT_BYTES)]
    taken = used_slots(standing or "", there)
    names = [name for name in slot_names(range(len(cuts) + len(taken))) if name not in taken]
    return {
        name: f"{digest}:{number}:{len(cuts)}:{cut}"
        for number, (name, cut) in enumerate(zip(names, cuts, strict=False))
    }


def used_slots(revision: str, there: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the slots that a revision's snapshot is in."""
    digest = _digest_in(revision)
    return frozenset(n for n, value in there.items() if value.partition(":")[0] == digest)


class Gathered(msgspec.Struct, frozen=True):
    """The content of a revision's snapshot once ``missing`` is 0; None where none was found."""

    content: bytes | None
    missing: int


def gather(revision: str, values: Iterable[str]) -> Gathered | None:
    """Put the slots of a revision's snapshot together, as far as they are there."""
    digest, cuts, count = _digest_in(revision), {}, 0
    for value in values:
        pieces = value.split(":", 3)
        if len(pieces) == 4 and pieces[0] == digest and pieces[1].isdigit() and pieces[2].isdigit():
            cuts[int(pieces[1])], count = pieces[3], int(pieces[2])
    if not cuts:
        return None
    missing = count - len(cuts)
    if missing:
        return Gathered(None, max(missing, 0))
    try:
        text = "".join(cuts[number] for number in range(count))
        return Gathered(base64.b64decode(text, validate=True), 0)
    except (LookupError, ValueError):
        return None
