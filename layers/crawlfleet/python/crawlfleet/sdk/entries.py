"""Entries of a submission: prepared, cut into batches, put together again with their answers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.wire import ProblemDocument
from crawlfleet.wire.requests import SubmissionAnswer

#: Entries that one call may carry.
BATCH_ENTRIES: Final = 1_000
#: Bytes that one call may carry: Lambda takes 6 MB, with the body quoted inside the event.
BATCH_BYTES: Final = 4_000_000

#: Fields of a call that belong to no entry of it.
_OF_THE_CALL: Final = frozenset({"requests", "body", "biz", "request"})
_PLACE: Final = re.compile(r"^requests\[(\d+)\]\.?")
#: The place of an entry that was given before, in the message of its repetition.
_OTHER: Final = re.compile(r"(?<=^is that of )requests\[(\d{1,9})\]")


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page to download. ``rule`` may be left to the submission or to the biz.

    Under one ``client_id`` of yours a biz stores one request; ``job`` is what it is counted under.
    Of a ``priority`` from 0 to 10, 5 where none is said, the higher ones are served earlier. The
    tenant's document may limit what its ``user`` uses, a name of yours.
    """

    url: str
    rule: str | None = None
    method: str = "GET"
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    body: str | None = None
    meta: dict[str, str | int | float | bool | None] = {}
    client_id: str | None = None
    job: str | None = None
    priority: int | None = None
    user: str | None = None


class Submitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one entry: its ``id``, or the ``error`` for which it was not accepted.

    ``index`` is its place in what was submitted, from 0; ``url`` is the one it named. ``repeated``:
    it was stored before, by the same submission or under the same client id; then ``state`` is
    None: :meth:`Client.get` reads it.
    """

    index: int
    url: str
    id: str | None = None
    state: str | None = None
    repeated: bool = False
    error: ProblemDocument | None = None

    @property
    def accepted(self) -> bool:
        """Tell whether the request is stored and will be worked on."""
        return self.id is not None


EntryLike: TypeAlias = str | Entry | Mapping[str, Any]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it will travel, and its place in what the caller gave."""

    index: int
    url: str
    content: bytes


def prepare(entry: EntryLike, index: int, field: str, **filled: str | int | None) -> Prepared:
    """Encode an entry; ``filled`` are fields for those that have none of their own.

    What its fields hold is the API's to judge: it has the rules, and answers each entry by itself.

    Raises:
        InvalidRequestError: it is no URL, no mapping and no :class:`Entry`, or no JSON can hold it.
    """
    fields: dict[str, Any]
    if isinstance(entry, str):
        fields = {"url": entry}
    elif isinstance(entry, Entry):
        fields = msgspec.to_builtins(entry)
    elif isinstance(entry, Mapping):
        fields = dict(entry)
    else:
        raise InvalidRequestError.of(
            field, f"must be a URL, a mapping or an Entry, not {type(entry).__name__}"
        )
    for name, value in filled.items():
        if fields.get(name) is None:
            fields[name] = value
        if fields[name] is None:
            del fields[name]
    try:
        content = msgspec.json.encode(fields)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError.of(field, f"cannot be written as JSON: {error}") from error
    url = fields.get("url")
    return Prepared(index=index, url=url if isinstance(url, str) else "", content=content)


def batches(entries: Iterable[Prepared]) -> Iterator[list[Prepared]]:
    """Cut ``entries`` into batches within the API's limits, in order, as they are needed."""
    batch: list[Prepared] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) >= BATCH_ENTRIES or size + len(entry.content) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.content) + 1
    if batch:
        yield batch


def encode(batch: list[Prepared]) -> bytes:
    """Write the body of a batch's call."""
    return b'{"requests":[' + b",".join(entry.content for entry in batch) + b"]}"


def answered(batch: list[Prepared], answers: Iterable[SubmissionAnswer]) -> list[Submitted]:
    """Return the results of a batch that was accepted in part or whole, entry by entry."""
    return [
        Submitted(
            index=entry.index,
            url=entry.url,
            id=answer.id,
            state=answer.state,
            repeated=answer.repeated,
            error=_own(answer.error, batch),
        )
        for entry, answer in zip(batch, answers, strict=True)
    ]


def refused(batch: list[Prepared], error: InvalidRequestError) -> list[Submitted] | None:
    """Return the results of a batch of which nothing was accepted, each with its own errors.

    None where the errors are not all of single entries: then the call as a whole was wrong.
    """
    problems: dict[int, list[Problem]] = {}
    for problem in error.problems:
        place = _PLACE.match(problem.field)
        # Of a batch of one, the API names the entry's fields without its place.
        alone = place is None and len(batch) == 1 and problem.field not in _OF_THE_CALL
        if not alone and (place is None or int(place[1]) >= len(batch)):
            return None
        problems.setdefault(int(place[1]) if place else 0, []).append(
            Problem(_PLACE.sub("", problem.field) or "entry", _placed(problem.message, batch))
        )
    return [
        Submitted(
            index=entry.index,
            url=entry.url,
            error=ProblemDocument(
                title="The request is not valid",
                status=400,
                detail="" if own else "refused with the rest of its batch",
                errors=tuple(own),
            ),
        )
        for entry, own in ((entry, problems.get(at, [])) for at, entry in enumerate(batch))
    ]


def _own(problem: ProblemDocument | None, batch: list[Prepared]) -> ProblemDocument | None:
    """Name the problem's fields from its entry, whatever place that had in its batch."""
    if problem is None:
        return None
    if not problem.errors:
        return msgspec.structs.replace(problem, detail=_PLACE.sub("", problem.detail))
    own = tuple(
        Problem(_PLACE.sub("", each.field) or "entry", _placed(each.message, batch))
        for each in problem.errors
    )
    return msgspec.structs.replace(problem, detail="", errors=own)


def _placed(message: str, batch: list[Prepared]) -> str:
    """Name another entry by its index in what the caller gave, not in its batch."""

    def given(other: re.Match[str]) -> str:
        at = int(other[1])
        return f"requests[{batch[at].index}]" if at < len(batch) else other[0]

    return _OTHER.sub(given, message)
