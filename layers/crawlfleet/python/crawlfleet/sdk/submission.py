"""Submitting pages: one, many, more than memory holds; each is stored once."""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, Final, overload

from crawlfleet.kernel.errors import CrawlfleetError, InvalidRequestError, RejectedError
from crawlfleet.sdk.calls import Calls, OnWait, path_of, traced
from crawlfleet.sdk.entries import (
    Entry,
    EntryLike,
    Submitted,
    answered,
    batches,
    encode,
    prepare,
    refused,
)
from crawlfleet.sdk.errors import AllRefusedError, PartlySubmittedError, UncertainError, error_of
from crawlfleet.sdk.transport import Answer, Patience
from crawlfleet.wire.requests import BatchAnswer, SubmissionAnswer

KEY_HEADER: Final = "Idempotency-Key"


class SubmissionCalls(Calls):
    """The calls that submit."""

    @overload
    def submit(  # type: ignore[overload-overlap]  # a str is an iterable of str, but one URL here
        self,
        biz: str,
        what: str | Entry | Mapping[str, Any],
        *,
        rule: str | None = None,
        job: str | None = None,
        priority: int | None = None,
        user: str | None = None,
        client_ids: str | Iterable[str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        on_wait: OnWait | None = None,
        traceparent: str | None = None,
    ) -> Submitted: ...

    @overload
    def submit(
        self,
        biz: str,
        what: Iterable[EntryLike],
        *,
        rule: str | None = None,
        job: str | None = None,
        priority: int | None = None,
        user: str | None = None,
        client_ids: str | Iterable[str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        on_wait: OnWait | None = None,
        traceparent: str | None = None,
    ) -> list[Submitted]: ...

    def submit(
        self,
        biz: str,
        what: EntryLike | Iterable[EntryLike],
        *,
        rule: str | None = None,
        job: str | None = None,
        priority: int | None = None,
        user: str | None = None,
        client_ids: str | Iterable[str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        on_wait: OnWait | None = None,
        traceparent: str | None = None,
    ) -> Submitted | list[Submitted]:
        """Submit one page, or many in batches of up to 1,000.

        ``rule``, ``job``, ``priority`` and ``user`` are for entries that name none. One page gives
        one result, and an error if it is refused. Many give one result each, in order, with an
        ``error`` in those that were refused: a wrong entry does not stop the others. Where all of
        them were refused that is an error, with the ``results``. For more than memory holds see
        :meth:`submit_each`, which raises none for single entries.

        Nothing is stored twice. Every call carries a key, so that it is tried again after any
        failure; give an ``idempotency_key`` of your own to be able to repeat it later, with the
        same entries, from another process too. ``client_ids``, one an entry, do the same for each
        entry by itself, whatever it is submitted with.

        A biz that has as much as it may says so. ``timeout`` is for how many seconds from now on
        room is waited for, asking at least every 30 of them (without it, as for any call);
        ``on_wait`` is called with each pause.

        With the ``traceparent`` of a trace that is recorded (W3C Trace Context) the requests are
        traced in that one.

        Raises:
            InvalidRequestError: the one page is refused; the fields are named.
            AllRefusedError: every one of many is refused; it is an InvalidRequestError, too.
            UnknownBizError: there is no such biz for this key.
            KeyReusedError: the key stands for other entries.
            BacklogFullError: the biz has as much as it may; nothing (more) was stored.
            PartlySubmittedError: the API failed after a part of many was answered.
            UncertainError: the answer was lost each time; it may have been accepted.
        """
        if isinstance(what, str | Entry | Mapping):
            key = idempotency_key or _new_key()
            ids = [client_ids] if isinstance(client_ids, str) else client_ids
            client_id = None if ids is None else next(_each_with(ids, [what]))[1]
            prepared = prepare(
                *(what, 0, "entry"),
                rule=rule,
                job=job,
                priority=priority,
                user=user,
                client_id=client_id,
            )
            patience = self._patience(timeout, on_wait)
            headers = _headers(key, traceparent)
            answer = self._send(biz, prepared.content, headers, key, patience)
            return self._one(answer, prepared.url)
        results: list[Submitted] = []
        try:
            for result in self.submit_each(
                biz,
                what,
                rule=rule,
                job=job,
                priority=priority,
                user=user,
                client_ids=client_ids,
                idempotency_key=idempotency_key,
                timeout=timeout,
                on_wait=on_wait,
                traceparent=traceparent,
            ):
                results.append(result)  # noqa: PERF402  what was answered outlives an error
        except CrawlfleetError as error:
            if results:
                raise PartlySubmittedError(tuple(results), error) from error
            raise
        if results and not any(result.accepted for result in results):
            raise AllRefusedError(tuple(results))
        return results

    def submit_each(
        self,
        biz: str,
        entries: Iterable[EntryLike],
        *,
        rule: str | None = None,
        job: str | None = None,
        priority: int | None = None,
        user: str | None = None,
        client_ids: str | Iterable[str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        on_wait: OnWait | None = None,
        traceparent: str | None = None,
    ) -> Iterator[Submitted]:
        """Submit any number of pages while iterated; each result comes once its batch is answered.

        ``entries`` may be endless: no more than one batch of it is held. Nothing is sent until the
        iterator is read. Errors are those of :meth:`submit`, raised where they happen. Each batch
        has a key made of the ``idempotency_key`` and its number: the same entries in the same order
        under the same key are the same batches.
        """
        key = idempotency_key or _new_key()
        patience = self._patience(timeout, on_wait)
        ids = [client_ids] if isinstance(client_ids, str) else client_ids
        each = ((entry, None) for entry in entries) if ids is None else _each_with(ids, entries)
        prepared = (
            prepare(
                entry,
                index,
                f"requests[{index}]",
                rule=rule,
                job=job,
                priority=priority,
                user=user,
                client_id=client_id,
            )
            for index, (entry, client_id) in enumerate(each)
        )
        for number, batch in enumerate(batches(prepared)):
            own = f"{key}.{number}" if number else key
            try:
                headers = _headers(own, traceparent)
                answer = self._send(biz, encode(batch), headers, key, patience)
            except InvalidRequestError as error:
                results = refused(batch, error)
                if results is None:
                    raise
                yield from results
                continue
            answers = self._read(answer, BatchAnswer).requests
            if len(answers) != len(batch):
                raise self._strange(
                    answer, f"{len(answers)} answers to {len(batch)} submitted entries"
                )
            yield from answered(batch, answers)

    def _send(
        self,
        biz: str,
        body: bytes,
        headers: Mapping[str, str],
        whole: str,
        patience: Patience | None,
    ) -> Answer:
        """Send one call's entries; ``whole`` is the key that the caller repeats them by."""
        lost: list[str] = []
        try:
            return self._transport.call(
                "POST",
                path_of(biz, "requests"),
                body=body,
                headers=headers,
                lost=lost,
                patience=patience,
            )
        except RejectedError:
            raise
        except CrawlfleetError as error:
            if not lost:
                raise
            raise UncertainError(
                f"the answer to a submission was lost ({lost[-1]}): it may have been accepted, or "
                f"not; submitted again under the idempotency key {whole} it is stored once",
                idempotency_key=whole,
            ) from error

    def _one(self, answer: Answer, url: str) -> Submitted:
        one = self._read(answer, SubmissionAnswer)
        if one.error is not None:
            raise error_of(one.error.status or 400, one.error)
        if one.id is None:
            raise self._strange(answer, "an acceptance without an id")
        return Submitted(index=0, url=url, id=one.id, state=one.state, repeated=one.repeated)


def _each_with(
    ids: Iterable[str], entries: Iterable[EntryLike]
) -> Iterator[tuple[EntryLike, str | None]]:
    """Yield each entry with its client id.

    Raises:
        InvalidRequestError: there are not as many ids as entries.
    """
    if isinstance(ids, Sized) and isinstance(entries, Sized) and len(ids) != len(entries):
        message = f"must be one an entry: {len(ids)} are given for {len(entries)}"
        raise InvalidRequestError.of("client_ids", message)
    given = iter(ids)
    for index, entry in enumerate(entries):
        client_id = next(given, None)
        if client_id is None:
            message = f"must be one an entry: there are {index} only"
            raise InvalidRequestError.of("client_ids", message)
        yield entry, client_id


def _headers(key: str, traceparent: str | None) -> dict[str, str]:
    return {KEY_HEADER: key} | traced(traceparent)


def _new_key() -> str:
    return uuid.uuid4().hex
