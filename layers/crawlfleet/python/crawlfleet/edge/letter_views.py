"""Dead letters as the API shows them: in lists without what is long, alone with everything."""

import base64
import re
from collections.abc import Callable
from typing import Final

from crawlfleet.edge.views import EventView, View, at, event_view
from crawlfleet.model.request import Tracked
from crawlfleet.page import Answer

_CHARSET: Final = re.compile(r"charset\s*=\s*\"?'?([\w.:-]+)", re.IGNORECASE)
#: Most bytes of one sign of UTF-8 that a cut may have taken away.
_CUT: Final = 3


class AnswerView(View, frozen=True, kw_only=True):
    """What the site answered last. ``status`` is 0 where no answer came; ``seconds`` it took."""

    url: str
    status: int
    headers: dict[str, str]
    seconds: float


class SampleView(View, frozen=True, kw_only=True):
    """The beginning of the answer's body; ``encoding`` is ``text``, or ``base64`` for bytes."""

    encoding: str
    content: str


class LetterView(View, frozen=True, kw_only=True):
    """A dead letter as lists show it: the request, why it was given up on, the last answer."""

    id: str
    queued_at: str
    url: str
    rule: str
    rule_version: str
    job: str | None
    attempts: int
    reason: str | None
    error: str | None
    status: int
    answer: AnswerView | None


class LettersView(View, frozen=True, kw_only=True):
    """A page of dead letters; ``cursor`` is where to go on."""

    dead_letters: list[LetterView]
    cursor: str | None
    more: bool


class WholeLetterView(LetterView, frozen=True, kw_only=True):
    """A dead letter with everything that is known of it."""

    biz: str
    method: str
    headers: dict[str, str]
    params: dict[str, str]
    body: str | None
    meta: dict[str, str | int | float | bool | None]
    worker: str | None
    state: str
    sample: SampleView | None
    timeline: list[EventView]


class ReplayedView(View, frozen=True, kw_only=True):
    """What a replay did. ``more``: there may be others; ask again with this ``cursor``.

    ``skipped`` are meant, but too old to be worked on; a call without a cursor counts them.
    """

    replayed: int
    skipped: int
    cursor: str | None
    more: bool


class PurgedView(View, frozen=True, kw_only=True):
    """What a purge did. ``more``: there may be others; ask again with this ``cursor``."""

    purged: int
    skipped: int
    cursor: str | None
    more: bool


def letter_view(letter: Tracked) -> LetterView:
    """A dead letter of a list."""
    request, body, answer = letter.request, letter.request.body, letter.answer
    return LetterView(
        id=str(request.id),
        queued_at=at(request.queued_at),
        url=body.url,
        rule=body.rule,
        rule_version=body.rule_version,
        job=request.job,
        attempts=letter.attempts,
        reason=letter.reason,
        error=letter.error,
        status=0 if answer is None else answer.status,
        answer=None if answer is None else _answer_view(answer),
    )


def whole_letter_view(letter: Tracked, label: Callable[[int], str]) -> WholeLetterView:
    """A dead letter alone."""
    short, body, answer = letter_view(letter), letter.request.body, letter.answer
    return WholeLetterView(
        id=short.id,
        queued_at=short.queued_at,
        url=short.url,
        rule=short.rule,
        rule_version=short.rule_version,
        job=short.job,
        attempts=short.attempts,
        reason=short.reason,
        error=short.error,
        status=short.status,
        answer=short.answer,
        biz=letter.request.biz,
        method=body.method,
        headers=body.headers,
        params=body.params,
        body=body.body,
        meta=body.meta,
        worker=letter.worker,
        state=label(letter.state),
        sample=None if answer is None or not answer.sample else sample_view(answer),
        timeline=[event_view(event) for event in letter.timeline],
    )


def sample_view(answer: Answer) -> SampleView:
    """The sample as text where it is UTF-8 and the answer does not say otherwise, else base64.

    >>> sample_view(Answer(url="u", sample="Börse".encode()))
    SampleView(encoding='text', content='Börse')
    >>> sample_view(Answer(url="u", sample=bytes([255, 0]))).encoding
    'base64'
    """
    text = _text(answer)
    if text is None:
        return SampleView(encoding="base64", content=base64.b64encode(answer.sample).decode())
    return SampleView(encoding="text", content=text)


def _text(answer: Answer) -> str | None:
    said = _CHARSET.search(answer.headers.get("content-type", ""))
    if said and said[1].lower() not in {"utf-8", "utf8", "us-ascii", "ascii"}:
        return None
    try:
        return answer.sample.decode()
    except UnicodeDecodeError as error:
        # A sample ends where it was cut, which may be within a sign.
        if error.reason == "unexpected end of data" and error.start >= len(answer.sample) - _CUT:
            return answer.sample[: error.start].decode()
        return None


def _answer_view(answer: Answer) -> AnswerView:
    return AnswerView(
        url=answer.url,
        status=answer.status,
        headers=answer.headers,
        seconds=round(answer.seconds, 3),
    )
