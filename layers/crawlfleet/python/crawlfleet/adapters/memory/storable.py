"""What MongoDB could hold of an outcome, judged without one."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.model.outcome import Dead, Done, Outcome
from crawlfleet.model.record import Record
from crawlfleet.policy.retry import UNSTORABLE

_LONGEST_INTEGER: Final = 2**63 - 1
#: What MongoDB takes of one record, in bytes and in levels.
_LARGEST_RECORD: Final = 16_000_000
_DEEPEST_RECORD: Final = 150
#: Half of a character: no encoding has it.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def storable(outcome: Outcome) -> Outcome:
    """A record that MongoDB could not hold costs its request its life here, too."""
    if not isinstance(outcome, Done):
        return outcome
    problem = why_not(outcome.records)
    return outcome if problem is None else Dead(f"no records stored: {problem}", UNSTORABLE)


def why_not(records: Iterable[Record]) -> str | None:
    """Why MongoDB could not hold one of the records, or None."""
    for record in records:
        for problem in _problems(record.fields, 0):
            return problem
        if len(msgspec.msgpack.encode(record.fields)) > _LARGEST_RECORD:
            return "it is too large"
    return None


def _problems(value: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST_RECORD:
        yield "it is nested too deeply"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or "\0" in key:
                yield f"{key!r} is no field name"
            yield from _problems(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _problems(item, depth + 1)
    elif isinstance(value, bool | float | bytes | datetime | None):
        return
    elif isinstance(value, int):
        if not -_LONGEST_INTEGER - 1 <= value <= _LONGEST_INTEGER:
            yield "an integer has more than 64 bits"
    elif isinstance(value, str):
        if _SURROGATE.search(value):
            yield "a text is no Unicode"
    else:
        yield f"{type(value).__name__} is no type of a record"
