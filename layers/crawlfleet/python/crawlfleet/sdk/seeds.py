"""Seeds: URLs that are accepted once a segment; add, read, release or forget them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.sdk.calls import (
    CHANGES,
    PAGE_SIZE,
    Calls,
    Changed,
    OnWait,
    Pages,
    Progress,
    Selection,
    moment_of,
    parameters,
    path_of,
    traced,
)
from crawlfleet.sdk.entries import BATCH_ENTRIES, Prepared, batches, prepare
from crawlfleet.wire import ProblemDocument
from crawlfleet.wire.seeds import (
    OfferAnswer,
    OffersAnswer,
    Seed,
    SeedsPage,
    SeedTotalsAnswer,
    SegmentTotals,
)

_PLACE: Final = re.compile(r"^seeds\[(\d{1,9})\]\.?")


class SeedOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a URL that was added; ``index`` is its place in what was given.

    ``segment`` is the one it was judged in, ``key`` what its page has there. One that was not
    accepted is a duplicate, and ``why`` says where it is known, or it has an ``error``.
    """

    index: int
    url: str
    accepted: bool = False
    segment: str | None = None
    key: str | None = None
    why: str | None = None
    error: ProblemDocument | None = None

    @property
    def duplicate(self) -> bool:
        """Tell whether its page was known already."""
        return not self.accepted and self.error is None


class Seeds(Selection):
    """The seeds of a filter; iterate for them, in the order of segment and key."""

    noun = "seed"

    def __iter__(self) -> Iterator[Seed]:
        return self.pages()

    def pages(self, cursor: str | None = None) -> Pages[Seed]:
        """Return an iterator with a ``cursor``, by which another one goes on elsewhere."""
        return self._pages(self._path, SeedsPage, self._params, cursor)

    def release(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        everything: bool = False,
        progress: Progress | None = None,
    ) -> Changed:
        """Make those that failed ready again (finished ones where the filter says so).

        Raises:
            InvalidRequestError: there is no filter, and nothing says everything.
        """
        return self._change("release", Changed, limit, cursor, progress, everything=everything)

    def forget(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        everything: bool = False,
        progress: Progress | None = None,
    ) -> Changed:
        """Remove them, so that their URLs are accepted anew.

        Raises:
            InvalidRequestError: there is no filter, and nothing says everything.
        """
        return self._change("forget", Changed, limit, cursor, progress, everything=everything)


class SeedCalls(Calls):
    """The calls about seeds."""

    def offer_seeds(
        self,
        biz: str,
        urls: Iterable[str | Mapping[str, Any]],
        *,
        rule: str | None = None,
        job: str | None = None,
        starts_at: datetime | str | None = None,
        timeout: float | None = None,
        on_wait: OnWait | None = None,
        traceparent: str | None = None,
    ) -> list[SeedOffer]:
        """Add URLs as seeds; one answer each, in order. For many, see :meth:`offer_each_seed`.

        ``rule``, ``job`` and ``starts_at`` are for those that name none. A repetition, as after
        a lost answer, doubles nothing: what was accepted then is a duplicate now. With the
        ``traceparent`` of a trace that is recorded what becomes of them is traced in that one.

        A biz that has as much as it may is waited for as by :meth:`submit`: for ``timeout`` seconds
        from now on, ``on_wait`` called with each pause.

        Raises:
            BacklogFullError: the biz has as much as it may; nothing (more) was accepted.
        """
        return list(
            self.offer_each_seed(
                biz,
                urls,
                rule=rule,
                job=job,
                starts_at=starts_at,
                timeout=timeout,
                on_wait=on_wait,
                traceparent=traceparent,
            )
        )

    def offer_each_seed(
        self,
        biz: str,
        urls: Iterable[str | Mapping[str, Any]],
        *,
        rule: str | None = None,
        job: str | None = None,
        starts_at: datetime | str | None = None,
        timeout: float | None = None,
        on_wait: OnWait | None = None,
        traceparent: str | None = None,
    ) -> Iterator[SeedOffer]:
        """Add any number of URLs while iterated, in batches of up to 1,000.

        ``urls`` may be endless: no more than one batch of it is held.
        """
        moment = moment_of(starts_at, "starts_at")
        prepared = (
            prepare(one, index, f"seeds[{index}]", rule=rule, job=job, starts_at=moment)
            for index, one in enumerate(urls)
        )
        path, headers = path_of(biz, "seeds"), traced(traceparent)
        patience = self._patience(timeout, on_wait)
        for batch in batches(prepared):
            body = b'{"seeds":[' + b",".join(one.content for one in batch) + b"]}"
            try:
                answer = self._transport.call(
                    "POST", path, body=body, headers=headers, patience=patience
                )
            except InvalidRequestError as error:
                yield from _refused(batch, error)
                continue
            answers = self._read(answer, OffersAnswer).seeds
            if len(answers) != len(batch):
                raise self._strange(answer, f"{len(answers)} answers to {len(batch)} offers")
            for one, each in zip(batch, answers, strict=True):
                yield _offer(one, each)

    def seeds(
        self,
        biz: str,
        *,
        segment: str | None = None,
        state: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Seeds:
        """Select the seeds of a biz for which every given condition holds.

        ::

            failed = fleet.seeds("news", segment="2026-03-01", state="failed")
            for seed in failed:
                print(seed.url, seed.why)
            failed.release()
        """
        given: dict[str, str | int] = {**parameters(segment=segment, state=state)}
        return Seeds(self._transport, self._clock, path_of(biz, "seeds"), given, page_size)

    def seed_totals(self, biz: str) -> tuple[SegmentTotals, ...]:
        """Count the seeds of the newest segments by state, the newest first."""
        return self._get(path_of(biz, "seeds", "totals"), SeedTotalsAnswer).segments

    def release_seeds(self, biz: str, seeds: Sequence[str]) -> int:
        """Make these seeds (``segment/key``) ready again if they have ended; count them."""
        return self._named_seeds(biz, "release", seeds)

    def forget_seeds(self, biz: str, seeds: Sequence[str]) -> int:
        """Remove these seeds (``segment/key``): their URLs are accepted anew; count them."""
        return self._named_seeds(biz, "forget", seeds)

    def _named_seeds(self, biz: str, verb: str, seeds: Sequence[str]) -> int:
        count = 0
        path = path_of(biz, "seeds", verb)
        for start in range(0, len(seeds), BATCH_ENTRIES):
            body = {"seeds": list(seeds[start : start + BATCH_ENTRIES]), "limit": CHANGES}
            count += self._post(path, body, Changed, []).count
        return count


def _offer(one: Prepared, answer: OfferAnswer) -> SeedOffer:
    return SeedOffer(
        index=one.index,
        url=one.url,
        accepted=answer.accepted,
        segment=answer.segment,
        key=answer.key,
        why=answer.why,
        error=None if answer.error is None else _own(answer.error),
    )


def _own(problem: ProblemDocument) -> ProblemDocument:
    """Name the problem's fields from its entry, whatever place that had in its batch."""
    own = tuple(Problem(_PLACE.sub("", p.field) or "seed", p.message) for p in problem.errors)
    return msgspec.structs.replace(problem, detail="" if own else problem.detail, errors=own)


def _refused(batch: list[Prepared], error: InvalidRequestError) -> Iterator[SeedOffer]:
    """Return the answers of a batch of which nothing was accepted, each with its own errors.

    Raises:
        InvalidRequestError: the errors are not all of single entries: the call itself was wrong.
    """
    problems: dict[int, list[Problem]] = {}
    for problem in error.problems:
        place = _PLACE.match(problem.field)
        if place is None or int(place[1]) >= len(batch):
            raise error
        own = Problem(_PLACE.sub("", problem.field) or "seed", problem.message)
        problems.setdefault(int(place[1]), []).append(own)
    for at, one in enumerate(batch):
        yield SeedOffer(
            index=one.index,
            url=one.url,
            error=ProblemDocument(
                title="The request is not valid", status=400, errors=tuple(problems.get(at, ()))
            ),
        )
