"""Requests of a shard that are bound for a pool, told from those that are not (SPEC.md B12).

Only the former have ``pool``, and the index of pools has those and nothing else. Where it is not
there nothing is bound for any, as far as can be told quickly: the first such request has it built.

How a request looks in MongoDB; records are in mongo.record_documents.

::

    _id      id: int64, or hex for UUID and ObjectId
    tenant   who owns it
    biz, ts, data, flag     as SPEC.md A1 says; data is the body in MessagePack
    job      the job it belongs to; missing for single submissions
    priority 0 to 10; missing where it is the usual one, 5
    pool     the workers that alone may have it; missing where any usual one may
    call     the insertion that wrote it: a failed one takes back its own and nothing else; below 0
             until the ledger has counted it as submitted
    attempts, worker, token, due, records     from the first claim on
    error, reason, answer    of the last attempt that failed; answer is {url, status, headers as
             [[name, value]], seconds, sample}, the sample only of dead letters
    host, url, rule   of a dead letter: what it is found by, as nothing looks into data
    parts    how many parts of its records were stored while its page was still being read
    log      the timeline after submission: [{at, flag, by, why}], the last 50

``due`` is when recovery shall look at it: the end of the lease, or the time of the next attempt.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec
from pymongo import ASCENDING
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import Document
from crawlfleet.kernel.page import SAMPLE_BYTES, Answer
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.kernel.urls import plain_host_of as host_of
from crawlfleet.requests.models import Body, Entry, Event, Request, Tracked
from crawlfleet.requests.mongo.sharding import BY_POOL, BY_STATE
from crawlfleet.requests.outcomes import Dead, Retry

#: Pools of a shard that are told apart: there never are as many at once.
_MOST: Final = 64
_BAD_VALUE: Final = 2


def pools_in(requests: Collection[Document]) -> list[str] | None:
    """The pools that something of the shard is bound for, in order; None without the index.

    One step over the index for each of them, however many are bound for it.
    """
    found: list[str] = []
    try:
        while len(found) < _MOST:
            after = found[-1] if found else ""
            cursor = requests.find({"pool": {"$gt": after}}, projection=("pool",), hint=BY_POOL)
            one = next(iter(cursor.sort("pool", ASCENDING).limit(1)), None)
            if one is None:
                break
            found.append(one["pool"])
    except OperationFailure as error:
        if error.code != _BAD_VALUE:
            raise
        return None
    return found


def unbound(
    requests: Collection[Document], pools: Sequence[str] | None, found: list[Document]
) -> list[Document]:
    """Those of these pending documents, sorted by ``ts``, that any usual worker may have.

    They have been read from the index of states, which does not tell; no document is read here.
    """
    if not pools or not found:
        return found
    match = {
        "pool": {"$in": list(pools)},
        "flag": int(State.PENDING),
        "ts": {"$gte": found[0]["ts"], "$lte": found[-1]["ts"]},
    }
    bound = {one["_id"] for one in requests.find(match, projection=("_id",), hint=BY_POOL)}
    return [one for one in found if one["_id"] not in bound]


def nothing_unbound(
    requests: Collection[Document], pools: Sequence[str] | None, after: datetime, before: datetime
) -> bool:
    """Whether all that is pending between two moments is bound for some pool, as keys tell.

    What waits for a pool may be a million, and none of it is missing from the usual queue: to go
    through the keys is a fraction of the cost of reading it.
    """
    if not pools:
        return False
    span = {"flag": int(State.PENDING), "ts": {"$gt": after, "$lt": before}}
    bound = _count(requests, {"pool": {"$in": list(pools)}, **span}, BY_POOL)
    return bound > 0 and bound >= _count(requests, span, BY_STATE)


def _count(requests: Collection[Document], match: Document, hint: str) -> int:
    answer = requests.database.command("count", requests.name, query=match, hint=hint)
    return int(answer["n"])


#: Events kept of a request's timeline.
LOG_LENGTH: Final = 50
#: An error is for people; what it quotes of a site is bounded, as is all that an answer has.
LONGEST_ERROR: Final = 2_000
LONGEST_URL: Final = 2_000
_LONGEST_REASON: Final = 100
_MOST_HEADERS: Final = 30
#: What an entry is made of.
ENTRY_FIELDS: Final = ("_id", "ts", "priority")

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Body)


def new_document(request: Request, call: int) -> Document:
    """A request as it is first stored, by the insertion ``call``."""
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
    return document


def read_id(stored: RequestId) -> RequestId:
    """An id as everybody else knows it.

    The driver reads int64 as a class of its own, which no encoder but the driver's takes.
    """
    return int(stored) if isinstance(stored, int) else stored


def entry_of(queue_key: QueueKey, document: Document) -> Entry:
    """What the queue holds of a request, by its :data:`ENTRY_FIELDS`."""
    return Entry(
        read_id(document["_id"]),
        queue_key.biz,
        to_ms(document["ts"]),
        document.get("priority", DEFAULT_PRIORITY),
    )


def request_of(document: Document) -> Request:
    """The request in a document.

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
    )


def event(at: datetime, state: State, by: str, why: str) -> Document:
    """One line of the timeline."""
    return {"at": at, "flag": int(state), "by": by, "why": clean(why, 500)}


def clean(text: str, length: int) -> str:
    """The text as BSON can hold it, cut to ``length``: an error may quote what a site sent."""
    return text[:length].encode("utf-8", "replace").decode("utf-8")


def pushed(line: Document) -> Document:
    """The ``$push`` that appends a line to the timeline and keeps it bounded."""
    return {"log": {"$each": [line], "$slice": -LOG_LENGTH}}


def tracked_of(document: Document) -> Tracked:
    """Everything about a request. The submission itself is the timeline's first line."""
    submitted = Event(
        at=document["ts"], state=State.PENDING, by=document.get("by", "router"), why="submitted"
    )
    lines = [
        Event(at=line["at"], state=State(line["flag"]), by=line["by"], why=line["why"])
        for line in document.get("log", ())
    ]
    try:
        request = request_of(document)
    except (msgspec.DecodeError, UnicodeDecodeError):  # one of a list must not hide the others
        request = _request(document, Body(url="", rule="", rule_version=""))
    return Tracked(
        request=request,
        state=document["flag"],
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
    """The fields that say why an attempt failed, bounded, as BSON can hold them."""
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
    """What of an earlier failure is to go."""
    return {} if outcome.answer is not None else {"answer": ""}


def found_by(body: Body) -> Document:
    """What a dead letter is found by."""
    return {
        "host": clean(host_of(body.url), LONGEST_URL),
        "url": clean(body.url, LONGEST_URL),
        "rule": clean(body.rule, LONGEST_URL),
    }


def reversioned(data: bytes, versions: Mapping[str, str]) -> tuple[str | None, bytes | None]:
    """The version a body is read with once its rule has that of ``versions``, and its new bytes.

    None for bytes that need not change, and for the version of a body that nobody can read.
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
