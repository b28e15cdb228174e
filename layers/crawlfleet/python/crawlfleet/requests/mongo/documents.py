"""Documents of requests and of counters in MongoDB; those of records are in requests.mongo.records.

A request::

    _id      id: int64, or hex for UUID and ObjectId
    tenant   who owns it
    biz, ts, data, flag     as SPEC.md A1 says; data is the body in MessagePack
    job      the job it belongs to; missing for single submissions
    priority 0 to 10; missing where it is the usual one, 5
    pool     the workers that alone may have it; missing where any usual one may
    trace    the id of its trace; missing where it is not traced
    user     whom its tenant has named as the one that it is for; missing where it has not
    call     the insertion that wrote it: a failed one takes back its own and nothing else; below 0
             until the ledger has counted it as submitted
    attempts, worker, token, due, records     from the first claim on
    error, reason, answer    of the last attempt that failed; answer is {url, status, headers as
             [[name, value]], seconds, sample}, the sample only of dead letters
    host, url, rule   of a dead letter: what it is found by, as nothing looks into data
    parts    how many parts of its records were stored while its page was still being read
    log      the timeline after submission: [{at, flag, by, why}], the last 50; of attempts also
             peers, the addresses that were asked

``due`` is when recovery shall look at it: the end of the lease, or the time of the next attempt.

Counters count for ever, in the transaction that does what is counted (SPEC.md H1). They are
documents of the ``counts`` of a biz and database::

    {_id: {k: "biz", s: slot}, submitted, done, dead, cancelled, expired, own: {state: count}}
    {_id: {k: "job", j: job, s: slot}, the same, at: when it was last counted}
    {_id: {k: "swept"}, last: when recovery last completed there}

``own`` are the biz's own states in which a request has ended; in its other ones requests are
counted as those that are pending are: by looking.

A term is the sum over the slots. Transactions that write one document at the same moment undo each
other, so each takes a slot by chance, and another one when it is done again.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

import msgspec
from pymongo import MongoClient, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError

from crawlfleet.kernel.ids import OWN, OWN_FINAL, RequestId, State
from crawlfleet.kernel.mongo.connection import Document
from crawlfleet.kernel.mongo.transactions import MetAnotherError, in_transaction
from crawlfleet.kernel.page import SAMPLE_BYTES, Answer
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.kernel.urls import plain_host_of as host_of
from crawlfleet.requests.models import Body, Coverage, Entry, Event, Request, Tracked
from crawlfleet.requests.mongo.sharding import BY_ID, BY_TIME
from crawlfleet.requests.outcomes import Dead, Retry

#: Events kept of a request's timeline.
LOG_LENGTH: Final = 50
#: An error is for people; what it quotes of a site is bounded, as is all that an answer has.
LONGEST_ERROR: Final = 2_000
LONGEST_URL: Final = 2_000
_LONGEST_REASON: Final = 100
_MOST_HEADERS: Final = 30
#: What a request has of its last attempt, and of its death, that is gone when it begins anew.
LEFT_BEHIND: Final[Document] = dict.fromkeys(
    ("error", "reason", "answer", "host", "url", "rule", "token", "due", "worker"), ""
)
#: What an entry is made of.
ENTRY_FIELDS: Final = ("_id", "ts", "priority")

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Body)


def new_document(request: Request, call: int) -> Document:
    """Write a request as it is first stored, by the insertion ``call``."""
    document: Document = {
        "_id": request.id,
        "tenant": request.tenant,
        "biz": request.biz,
        "ts": request.queued_at,
        "data": _encoder.encode(request.body),
        "flag": 0,
        "call": call,
    }
    if request.job is not None:
        document["job"] = request.job
    if request.priority != DEFAULT_PRIORITY:
        document["priority"] = request.priority
    if request.pool is not None:
        document["pool"] = request.pool
    if request.trace is not None:
        document["trace"] = request.trace
    if request.user is not None:
        document["user"] = request.user
    return document


def read_id(stored: RequestId) -> RequestId:
    """Return an id as everybody else knows it.

    The driver reads int64 as a class of its own, which no encoder but the driver's takes.
    """
    return int(stored) if isinstance(stored, int) else stored


def entry_of(queue_key: QueueKey, document: Document) -> Entry:
    """Make the queue's entry of a request, by its :data:`ENTRY_FIELDS`."""
    return Entry(
        read_id(document["_id"]),
        queue_key.biz,
        to_ms(document["ts"]),
        document.get("priority", DEFAULT_PRIORITY),
    )


def request_of(document: Document) -> Request:
    """Read the request in a document.

    Raises:
        msgspec.DecodeError: its body is none.
    """
    return _request(document, _decoder.decode(document["data"]))


def _request(document: Document, body: Body) -> Request:
    return Request(
        id=read_id(document["_id"]),
        tenant=document["tenant"],
        biz=document["biz"],
        queued_at=document["ts"],
        body=body,
        job=document.get("job"),
        priority=document.get("priority", DEFAULT_PRIORITY),
        pool=document.get("pool"),
        trace=document.get("trace"),
        user=document.get("user"),
    )


def event(at: datetime, state: int, by: str, why: str, peers: Sequence[str] = ()) -> Document:
    """Write one line of the timeline."""
    line: Document = {"at": at, "flag": int(state), "by": by, "why": clean(why, 500)}
    if peers:
        line["peers"] = list(peers)
    return line


def clean(text: str, length: int) -> str:
    """Cut the text to ``length`` and to what BSON can hold: an error may quote what a site sent."""
    return text[:length].encode("utf-8", "replace").decode("utf-8")


def pushed(line: Document) -> Document:
    """Write the ``$push`` that appends a line to the timeline and keeps it bounded."""
    return {"log": {"$each": [line], "$slice": -LOG_LENGTH}}


def tracked_of(document: Document) -> Tracked:
    """Read everything about a request; its timeline begins with its submission."""
    submitted = Event(
        at=document["ts"], state=State.PENDING, by=document.get("by", "router"), why="submitted"
    )
    lines = [
        Event(
            at=line["at"],
            state=int(line["flag"]),
            by=line["by"],
            why=line["why"],
            peers=tuple(line.get("peers", ())),
        )
        for line in document.get("log", ())
    ]
    try:
        request = request_of(document)
    except (msgspec.DecodeError, UnicodeDecodeError):  # one of a list must not hide the others
        request = _request(document, Body(url="", rule="", rule_version=""))
    return Tracked(
        request=request,
        state=int(document["flag"]),
        attempts=document.get("attempts", 0),
        timeline=(submitted, *lines),
        worker=document.get("worker"),
        error=document.get("error"),
        records=document.get("records", 0),
        due_at=document.get("due"),
        reason=document.get("reason"),
        answer=_answer_of(document["answer"]) if "answer" in document else None,
    )


def failure(outcome: Dead | Retry) -> Document:
    """Write why an attempt failed, bounded, as BSON can hold it."""
    fields: Document = {
        "error": clean(outcome.error, LONGEST_ERROR),
        "reason": clean(outcome.reason, _LONGEST_REASON),
    }
    answer = outcome.answer
    if answer is not None:
        fields["answer"] = {
            "url": clean(answer.url, LONGEST_URL),
            "status": answer.status,
            # Pairs: a name may be no name of a field.
            "headers": [
                [clean(name, _LONGEST_REASON), clean(value, LONGEST_URL)]
                for name, value in islice(answer.headers.items(), _MOST_HEADERS)
            ],
            "seconds": answer.seconds,
            "sample": answer.sample[:SAMPLE_BYTES],
        }
    return fields


def no_failure(outcome: Dead | Retry) -> Document:
    """Name the fields of an earlier failure that are to go."""
    return {} if outcome.answer is not None else {"answer": ""}


def found_by(body: Body) -> Document:
    """Write the fields that a dead letter is found by."""
    return {
        "host": clean(host_of(body.url), LONGEST_URL),
        "url": clean(body.url, LONGEST_URL),
        "rule": clean(body.rule, LONGEST_URL),
    }


def reversioned(data: bytes, versions: Mapping[str, str]) -> tuple[str | None, bytes | None]:
    """Return a body's rule version once its rule has that of ``versions``, and its new bytes.

    None for bytes that need not change, and for the version of a body that cannot be read.
    """
    try:
        body = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, None
    version = versions.get(body.rule, body.rule_version)
    if version == body.rule_version:
        return version, None
    return version, _encoder.encode(msgspec.structs.replace(body, rule_version=version))


def _answer_of(stored: Document) -> Answer:
    return Answer(
        url=stored["url"],
        status=int(stored["status"]),
        headers=dict(stored["headers"]),
        seconds=float(stored["seconds"]),
        sample=bytes(stored["sample"]),
    )


_ENDED: Final = [int(State.DONE), int(State.DEAD), int(State.CANCELLED), int(State.EXPIRED)]
#: The flags of what has not ended, of that of it which no worker has, and of that which is in a
#: state of the biz's own.
UNENDED: Final[Document] = {"$gte": 0, "$lt": OWN_FINAL, "$nin": _ENDED}
UNLEASED: Final[Document] = {**UNENDED, "$nin": [*_ENDED, int(State.LEASED)]}
OWN_OPEN: Final[Document] = {"$gte": OWN, "$lt": OWN_FINAL}

#: What is counted, by job (None: of no job) and term of the ledger.
Tally: TypeAlias = Counter[tuple[str | None, str]]

#: The terms that are counted for ever.
TERMS: Final = ("submitted", "done", "dead", "cancelled", "expired")
#: Before the number of a final state of the biz's own, whose term is ``own.1000``.
OWN_TERM: Final = "own."
SWEPT: Final[Document] = {"k": "swept"}

_SLOTS: Final = 64
_JOB_SLOTS: Final = 16
#: Slots of old jobs that one round of recovery reads.
_OLD_SLOTS: Final = 1_000
_DUPLICATE_KEY: Final = 11000


#: What the pages of a job were read to, by rule; the terms of coverage begin with it.
_READ: Final = "read."
_COVERED: Final = ("pages", "records", "rejected")


def read_terms(rule: str, coverages: Sequence[Coverage]) -> Iterator[tuple[str, int]]:
    """Yield the coverage of a job's pages, as terms; a field without any value counts 0.

    >>> terms = dict(read_terms("a.b", [Coverage(records=2, fields={"x": 0, "y": 1})] * 3))
    >>> terms["read.a%2Eb.records"], terms["read.a%2Eb.fields.x"], terms["read.a%2Eb.fields.y"]
    (6, 0, 3)
    """
    place = f"{_READ}{_part(rule)}"
    for name in _COVERED:
        yield f"{place}.{name}", sum(getattr(one, name) for one in coverages)
    # Names are written once for all pages: a worker does this for each batch that it settles.
    fields: dict[str, int] = {}
    for one in coverages:
        for name, count in one.fields.items():
            fields[name] = fields.get(name, 0) + count
    for name, count in fields.items():
        yield f"{place}.fields.{_part(name)}", count


def _part(name: str) -> str:
    """Write a name as a part of a path, which neither dots nor dollars are."""
    return quote(name, safe="").replace(".", "%2E") or "%"


def coverages_of(counted: Iterable[Document]) -> dict[str, Coverage]:
    """Sum up what counters of one job have read, by rule."""
    found: dict[str, Coverage] = {}
    for document in counted:
        for part, read in document.get("read", {}).items():
            rule = unquote(part)
            before = found.get(rule, Coverage())
            fields = Counter(before.fields)
            for name, count in read.get("fields", {}).items():
                fields[unquote(name) if name != "%" else ""] += int(count)
            sums = {name: getattr(before, name) + int(read.get(name, 0)) for name in _COVERED}
            found[rule] = Coverage(**sums, fields=dict(fields))
    return found


def tally_of(jobs: Iterable[str | None], term: str) -> Tally:
    """Count one of the term for each request, given by its job."""
    return Counter((job, term) for job in jobs)


def term_of(flag: int) -> str | None:
    """Return the term that counts requests in this state for ever; None where they are open.

    >>> term_of(State.DONE), term_of(State.WAITING), term_of(OWN), term_of(OWN_FINAL)
    ('done', None, None, 'own.1000')
    """
    if flag >= OWN_FINAL:
        return f"{OWN_TERM}{flag}"
    return State(flag).label if flag in _ENDED else None


def book(counts: Collection[Document], tally: Tally, at: datetime, session: ClientSession) -> None:
    """Count, as the last statement of the transaction: until it ends, nobody else has the slot."""
    biz: Counter[str] = Counter()
    jobs: dict[str, Counter[str]] = {}
    for (job, term), number in tally.items():
        if not term.startswith(_READ):
            biz[term] += number
        if job is not None:
            jobs.setdefault(job, Counter())[term] += number
    book_apart(counts, biz, jobs, at, session)


def book_apart(
    counts: Collection[Document],
    biz: Counter[str],
    jobs: dict[str, Counter[str]],
    at: datetime,
    session: ClientSession,
) -> None:
    """Count for the biz and for jobs, where the one is not the sum of the others."""
    changes: list[tuple[Document, Document]] = []
    if any(biz.values()):
        # No key of any security: it only has to be another one than the neighbour's.
        slot = random.randrange(_SLOTS)  # noqa: S311
        changes.append(({"k": "biz", "s": slot}, {"$inc": dict(biz)}))
    for job, terms in jobs.items():
        of_job = {"k": "job", "j": job, "s": random.randrange(_JOB_SLOTS)}  # noqa: S311
        changes.append((of_job, {"$inc": dict(terms), "$max": {"at": at}}))
    try:
        if len(changes) == 1:
            [(key, change)] = changes
            counts.update_one({"_id": key}, change, upsert=True, session=session)
        elif changes:
            updates = [UpdateOne({"_id": key}, change, upsert=True) for key, change in changes]
            counts.bulk_write(updates, ordered=False, session=session)
    except DuplicateKeyError as error:
        raise MetAnotherError from error
    except BulkWriteError as error:
        if {fault["code"] for fault in error.details["writeErrors"]} != {_DUPLICATE_KEY}:
            raise
        raise MetAnotherError from error


def count_submitted(
    requests: Collection[Document],
    counts: Collection[Document],
    ids: list[RequestId],
    at: datetime,
    session: ClientSession,
) -> int:
    """Count as submitted those of these that are not yet; return how many.

    A single submission is stored by one statement without a transaction, and until this has counted
    it, its ``call`` is below 0: the TTL index leaves it alone, and ledgers add it to what they have
    counted. Whoever removes a request calls this in the same transaction, before.
    """
    match = {"_id": {"$in": ids}, "call": {"$lt": 0}}
    found = list(requests.find(match, projection=["job"], hint=BY_ID, session=session))
    if found:
        change = {"$mul": {"call": -1}}
        chosen = {"_id": {"$in": [document["_id"] for document in found]}}
        requests.update_many(chosen, change, hint=BY_ID, session=session)
        tally = tally_of((document.get("job") for document in found), "submitted")
        book(counts, tally, at, session)
    return len(found)


def slots_of(first: Document) -> Document:
    """Match the counters whose key begins with ``first``."""
    # Documents compare field by field: a prefix is a range of the index.
    *_, (last_field, value) = first.items()
    return {"_id": {"$gte": first, "$lt": {**first, last_field: f"{value}\0"}}}


def forget_jobs(
    client: MongoClient[Document],
    counts: Collection[Document],
    before: datetime,
    still_open: Callable[[set[str]], set[str]],
) -> None:
    """Remove the counters of jobs that were last counted before then: all of a job's, or none.

    Those that are ``still_open`` keep them: without, their ledger would be below 0 when their tasks
    end. They are old no more, so that others are looked at.

    A job's slots are not counted in at the same time. If each went when it is old itself, what is
    left of the job would not balance.
    """
    old = counts.find({"at": {"$lt": before}}, projection=["_id"], hint=BY_TIME).limit(_OLD_SLOTS)
    jobs = {slot["_id"]["j"] for slot in old}
    kept = still_open(jobs) if jobs else jobs
    for job in kept:
        counts.update_many(slots_of({"k": "job", "j": job}), {"$max": {"at": before}}, hint=BY_ID)
    for job in jobs - kept:
        in_transaction(client, partial(_forget_job, counts, job, before))


def _forget_job(
    counts: Collection[Document], job: str, before: datetime, session: ClientSession
) -> None:
    slots = slots_of({"k": "job", "j": job})
    found = counts.find(slots, projection=["at"], hint=BY_ID, session=session)
    last = max((slot["at"] for slot in found), default=before)
    if last < before:
        counts.delete_many(slots, hint=BY_ID, session=session)
    else:
        counts.update_many(slots, {"$max": {"at": last}}, hint=BY_ID, session=session)
