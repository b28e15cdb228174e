"""The messages between a worker and the process that reads its pages.

A question is two lengths, a place, a header in MessagePack, and the page's body as it came, unless
that lies at the place in shared memory (``arena``); an answer is a length and MessagePack. Each
question has one answer, and answers come in the order of questions: so the oldest unanswered one is
what the reader was at when it died.

Nothing here runs what it reads: there are no classes on the wire but these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct as Layout
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.records.normalise import Unfit, normalised
from crawlfleet.kernel.errors import ExtractError, InvalidRequestError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Body, Coverage, Link, Skipped, Trial

#: Bytes of an answer: 50,000 links and 5 MB of values take less.
ANSWER_BYTES_MAX: Final = 64_000_000
#: Bytes of records in one slice of what a spider gives; the record that goes beyond is the last.
SLICE_BYTES: Final = 8_000_000
#: What a spider gives is taken in slices of so many things.
SLICE: Final = 200

#: The exit status of a reader that ran out of memory.
NO_MEMORY: Final = 86

QUESTION: Final = Layout("!IIi")
ANSWER: Final = Layout("!I")
FOLLOWS: Final = -1  #: The place of a body that follows its question.


class PageFacts(msgspec.Struct, frozen=True, array_like=True):
    """A page without its body, and of its request what a reader needs; never its headers."""

    url: str
    status: int
    headers: dict[str, str]
    redirects: tuple[str, ...]
    seconds: float
    rule: str
    depth: int
    meta: dict[str, Any]

    @classmethod
    def of(cls, page: Page, body: Body, *, headers: dict[str, str] | None = None) -> PageFacts:
        """Describe the page of a request, by all its headers or by these."""
        shown = page.headers if headers is None else headers
        return cls(
            page.url, page.status, shown, page.redirects, page.seconds, body.rule, body.depth,
            body.meta,
        )  # fmt: skip

    def page(self, content: bytes) -> Page:
        """Make the page again."""
        return Page(
            url=self.url,
            status=self.status,
            headers=self.headers,
            body=content,
            redirects=self.redirects,
            seconds=self.seconds,
        )

    def body(self) -> Body:
        """Make what a reader is to know of the request."""
        return Body(url=self.url, rule=self.rule, rule_version="", depth=self.depth, meta=self.meta)


class ByRule(msgspec.Struct, frozen=True, array_like=True, tag="rule"):
    """Read a page by a rule, which is in MessagePack, so that it is decoded once."""

    number: int
    rule: bytes
    facts: PageFacts


class Open(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """Begin to read a page by a spider; the first ``skip`` things were taken already.

    ``owner`` is a tenant and its biz.
    """

    number: int
    page: int
    spider: bytes
    facts: PageFacts
    owner: tuple[str, str]
    skip: int


class Next(msgspec.Struct, frozen=True, array_like=True, tag="next"):
    """Read on for about ``seconds``."""

    number: int
    page: int
    seconds: float


class Close(msgspec.Struct, frozen=True, array_like=True, tag="close"):
    """Forget a page that was begun."""

    number: int
    page: int


class Try(msgspec.Struct, frozen=True, array_like=True, tag="try"):
    """Try a rule or a spider on a page."""

    number: int
    rule: bytes
    spider: bytes
    facts: PageFacts
    owner: tuple[str, str]


class Check(msgspec.Struct, frozen=True, array_like=True, tag="check"):
    """List the errors of a rule, or of a ``spider``, that is in no document yet."""

    number: int
    rule: bytes
    spider: bool = False


Question: TypeAlias = ByRule | Open | Next | Close | Try | Check
#: What begins with a page.
OF_PAGES: Final = (ByRule, Open, Try)

Fields: TypeAlias = dict[str, Any]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """Say that a reader is ready, and of each defence ``ok`` or why it does not hold here."""

    number: int
    defences: dict[str, str]


class Harvested(msgspec.Struct, frozen=True, array_like=True, tag="harvest"):
    """The harvest of a rule, and the CPU seconds that reading took."""

    number: int
    seconds: float
    records: tuple[Fields | Unfit, ...]
    links: tuple[Link, ...]
    coverage: Coverage


class Slice(msgspec.Struct, frozen=True, array_like=True, tag="slice"):
    """The next things that a spider gave; there may be ``more``."""

    number: int
    seconds: float
    records: tuple[Fields | Unfit, ...]
    links: tuple[Link, ...]
    skipped: tuple[Skipped, ...]
    more: bool


class Tried(msgspec.Struct, frozen=True, array_like=True, tag="tried"):
    """The report of a trial, its records beside it."""

    number: int
    seconds: float
    trial: Trial
    records: tuple[Fields | Unfit, ...]


class Checked(msgspec.Struct, frozen=True, array_like=True, tag="checked"):
    """The errors of a rule or a spider."""

    number: int
    problems: tuple[Problem, ...]


class Closed(msgspec.Struct, frozen=True, array_like=True, tag="closed"):
    """The page is open, or forgotten."""

    number: int


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The page cannot be read: the field of an ExtractError, and why; without one, unforeseen."""

    number: int
    seconds: float
    field: str
    why: str


Answer: TypeAlias = Hello | Harvested | Slice | Tried | Checked | Closed | Failed

#: The kinds of answer that a question has.
ANSWERED_BY: Final[Mapping[type[Question], tuple[type[Answer], ...]]] = {
    ByRule: (Harvested, Failed),
    Open: (Closed, Failed),
    Next: (Slice, Failed),
    Close: (Closed, Failed),
    Try: (Tried, Failed),
    Check: (Checked, Failed),
}

_encode: Final = msgspec.msgpack.Encoder().encode
questions: Final[msgspec.msgpack.Decoder[Question]] = msgspec.msgpack.Decoder(Question)
answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)
_rules: Final = msgspec.msgpack.Decoder(Rule)
_spiders: Final = msgspec.msgpack.Decoder(Spider)
#: What an encoder raises at what MessagePack does not hold.
_UNWRITABLE: Final = (UnicodeError, OverflowError, TypeError, ValueError, RecursionError)


def written(reader: Rule | Spider) -> bytes:
    """Write a rule or a spider as questions carry it."""
    return _encode(reader)


def rule_of(content: bytes) -> Rule:
    """Read a rule."""
    return _rules.decode(content)


def spider_of(content: bytes) -> Spider:
    """Read a spider."""
    return _spiders.decode(content)


def header_of(question: Question) -> bytes:
    """Write what a question has beside a body."""
    return _encode(question)


def frame(header: bytes, size: int, place: int = FOLLOWS) -> bytes:
    """Write a question whose body of that size follows, or lies at a place."""
    return QUESTION.pack(len(header), size, place) + header


def clean(text: str) -> str:
    """Return text that any encoder takes.

    >>> clean("half a pair: " + chr(0xD800))
    'half a pair: ?'
    """
    return text.encode(errors="replace").decode()


def failed(number: int, seconds: float, error: Exception) -> bytes:
    """Write why a page cannot be read."""
    if isinstance(error, ExtractError):
        field, why = error.field, error.problem.message
    else:
        field, why = "", f"{type(error).__name__}: {error}"
    return answered(Failed(number, seconds, clean(field[:2_000]), clean(why[:2_000])))


def answered(answer: Answer) -> bytes:
    """Write an answer with its length."""
    payload = _encode(answer)
    if len(payload) > ANSWER_BYTES_MAX:
        why = f"gives more than {ANSWER_BYTES_MAX:,} bytes"
        payload = _encode(Failed(answer.number, 0.0, "page", why))
    return ANSWER.pack(len(payload)) + payload


def written_harvest(
    number: int,
    seconds: float,
    records: Sequence[Mapping[str, object]],
    links: Sequence[Link],
    coverage: Coverage,
) -> bytes:
    """Write what a rule gave; a record that is not plain enough is normalised first."""
    try:
        # As good as always. A rule's values are of JSON, but numbers and text may be beyond it.
        return answered(Harvested(number, seconds, tuple(records), tuple(links), coverage))  # type: ignore[arg-type]  # mappings of fields
    except _UNWRITABLE:
        fit = tuple(_fit(one) for one in records)
        sound, _ = _sound(links)
        return answered(Harvested(number, seconds, fit, tuple(sound), coverage))


def written_trial(number: int, seconds: float, trial: Trial) -> bytes:
    """Write what a trial gave, its records normalised, as they may be of anything."""
    sound, skipped = _sound(trial.links)
    left_out = [clean(str(one)) for one in skipped]
    plain = msgspec.structs.replace(
        trial,
        records=(),
        links=tuple(sound),
        left_out=tuple(map(clean, (*trial.left_out, *left_out))),
        left_out_count=trial.left_out_count + len(left_out),
        problems=tuple(Problem(clean(one.field), clean(one.message)) for one in trial.problems),
        empty={clean(name): clean(why) for name, why in trial.empty.items()},
    )
    return answered(Tried(number, seconds, plain, tuple(_fit(one) for one in trial.records)))


def written_fields(one: Mapping[Any, Any]) -> msgspec.Raw:
    """Write a record of a spider, which may be of anything, as it is going to be stored."""
    return msgspec.Raw(_encode(_fit(one)))


def written_links(links: Iterable[Link]) -> tuple[list[msgspec.Raw], list[Skipped]]:
    """Write links; one that cannot be written is left out."""
    sound, skipped = _sound(links)
    return [msgspec.Raw(_encode(link)) for link in sound], skipped


def _fit(one: Mapping[Any, Any]) -> Fields | Unfit:
    try:
        return normalised(one)
    except InvalidRequestError as error:
        return Unfit(tuple(Problem(clean(p.field), clean(p.message)) for p in error.problems))


def _sound(links: Iterable[Link]) -> tuple[list[Link], list[Skipped]]:
    sound: list[Link] = []
    skipped: list[Skipped] = []
    for link in links:
        try:
            _encode(link)
        except _UNWRITABLE as error:
            skipped.append(
                Skipped(
                    clean(str(link.url)[:500]), f"is no link that can be written: {error}"[:300]
                )
            )
        else:
            sound.append(link)
    return sound, skipped
