"""Idempotency keys of a call: which entries were submitted before, under which ids (SPEC.md D13).

A key is written before the requests it stands for, with the ids they will have. A repetition, at
the same moment, after a time-out or after a crash, finds it and goes on with the same ids, so each
entry is stored once however often it is sent.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import CrawlfleetError, InvalidRequestError, KeyReusedError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Body, Request
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.submission import admission
from crawlfleet.requests.submission.admission import Keyed, KeyKind, KeyName, Submission
from crawlfleet.requests.submission.mongo import MongoSubmissionKeys

#: The least that a key is kept: requests of a biz may live for a minute, a client's retries longer.
SHORTEST_LIFE: Final = timedelta(days=1)


def digest_of_call(submissions: Sequence[Submission | CrawlfleetError]) -> bytes:
    """Digest a call as it was given; an entry that could not be read counts as its error.

    >>> one = Submission(url="https://site.example/")
    >>> digest_of_call([one]) == digest_of_call([Submission(url="https://site.example/")])
    True
    >>> digest_of_call([one, one]) == digest_of_call([one])
    False
    """
    digest = sha256()
    for submission in submissions:
        if isinstance(submission, CrawlfleetError):
            text = b"!" + str(submission).encode("utf-8", "backslashreplace")
        else:
            text = _text_of(submission)
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.digest()


def digest_of_entry(submission: Submission) -> bytes:
    """Digest an entry as it was given; its ``client_id``, the key, is no part of it."""
    return sha256(_text_of(msgspec.structs.replace(submission, client_id=None))).digest()


def _text_of(submission: Submission) -> bytes:
    return msgspec.json.encode(submission, order="deterministic")


def kept_until(biz: Biz, now: datetime) -> datetime:
    """Return until when a key is kept: at least as long as its requests are."""
    return now + max(timedelta(seconds=biz.ttl_seconds + biz.expiry_grace_seconds), SHORTEST_LIFE)


def is_old(keyed: Keyed, biz: Biz, now: datetime) -> bool:
    """Tell whether requests stored only now under this key would have little time left.

    They have the ``queued_at`` of the key, and live from then on.
    """
    return now - keyed.queued_at >= timedelta(seconds=biz.ttl_seconds) / 2


def reused(name: KeyName, field: str = "") -> KeyReusedError:
    """Make the error of a key that comes with something else than it was first given for."""
    return KeyReusedError(
        f"{_called(name, field)} stands for another submission: send again what it was first given "
        "for, or choose a new one"
    )


def outlived(name: KeyName, field: str = "") -> KeyReusedError:
    """Make the error of an entry that was not stored while its key was young."""
    return KeyReusedError(
        f"{_called(name, field)} is too old for an entry that was not stored when it was first "
        "given: send this entry under a new one"
    )


def _called(name: KeyName, field: str) -> str:
    if name.kind is KeyKind.CALL:
        return f"Idempotency-Key {name.key!r}"
    return f"{field}client_id: {name.key!r}"


class IdempotencyKeys:
    """Hold the entries of one call, by position, and the keys they come under.

    A ``client_id`` decides for its entry; the call's ``key`` for all that have none. ``fields`` are
    what the entries' fields are called in messages, such as ``requests[3].``.
    """

    def __init__(
        self,
        keys: MongoSubmissionKeys,
        store: MongoRequestStore,
        queue_key: QueueKey,
        biz: Biz,
        submissions: Sequence[Submission | InvalidRequestError],
        fields: Sequence[str],
        key: str | None,
    ) -> None:
        self._keys, self._store, self._queue_key, self._biz = keys, store, queue_key, biz
        self._size = len(submissions)
        self._call = KeyName(KeyKind.CALL, key) if key is not None else None
        self._digests: dict[KeyName, bytes] = {}
        if self._call is not None:
            self._digests[self._call] = digest_of_call(submissions)
        #: The first entry of each client_id, and of each later one that is equal the first.
        self._firsts: dict[KeyName, int] = {}
        self.duplicates: dict[int, int] = {}
        #: Entries that are refused for their keys alone.
        self.refused: dict[int, CrawlfleetError] = {}
        self._fields = fields
        self._standing: dict[KeyName, Keyed] = {}
        self._names: dict[int, KeyName] = {}
        self._of_entry: dict[int, Submission] = {}
        for index, submission in enumerate(submissions):
            if isinstance(submission, Submission):
                self._enter_entry(index, submission)

    def _enter_entry(self, index: int, submission: Submission) -> None:
        self._of_entry[index] = submission
        if submission.client_id is None:
            if self._call is not None:
                self._names[index] = self._call
            return
        name = KeyName(KeyKind.ENTRY, submission.client_id)
        digest = digest_of_entry(submission)
        first = self._firsts.setdefault(name, index)
        if self._digests.setdefault(name, digest) != digest:
            message = f"is that of {self._fields[first].rstrip('.')} too, which is another entry"
            self.refused[index] = InvalidRequestError.of(f"{self._fields[index]}client_id", message)
        elif first != index:
            self.duplicates[index] = first
        else:
            self._names[index] = name

    def find(self, now: datetime) -> None:
        """Find the keys that are kept already.

        Raises:
            KeyReusedError: the call's key stands for another call.
        """
        if not self._digests:
            return
        found = self._keys.find(self._queue_key, list(self._digests))
        old = [one for one in found.values() if not one.stored and is_old(one, self._biz, now)]
        if lost := [keyed for keyed in old if not any(map(self._exists, keyed.ids))]:
            # Stored now, its requests would be as old as the key, and expire with it.
            self._keys.forget(self._queue_key, lost)
        gone = {keyed.name for keyed in lost}
        self._stand([keyed for keyed in found.values() if keyed.name not in gone])

    def too_late(self, index: int, now: datetime) -> CrawlfleetError | None:
        """Return why an entry must not be stored under its key any more; None if it may."""
        keyed = self._of(index)
        if keyed is None or not is_old(keyed, self._biz, now):
            return None
        return None if self._exists(keyed.ids[self._place(index)]) else outlived(keyed.name)

    def _exists(self, request_id: RequestId) -> bool:
        return self._store.get(self._queue_key, self._biz, request_id) is not None

    def _stand(self, keyed: Sequence[Keyed]) -> None:
        for one in keyed:
            if one.digest == self._digests[one.name]:
                self._standing[one.name] = one
            elif one.name == self._call:
                raise reused(one.name)
            else:
                index = self._firsts[one.name]
                self.refused[index] = reused(one.name, self._fields[index])

    def stored(self, index: int) -> RequestId | None:
        """Return the id of an entry that is known to be stored, or None."""
        keyed = self._of(index)
        if keyed is None or not keyed.stored or self.admitted(index) is None:
            return None
        return keyed.ids[self._place(index)]

    def admitted(self, index: int) -> admission.RuleVersion | None:
        """Return the rule that the entry was admitted with first; None if it was not."""
        keyed = self._of(index)
        return keyed.rules[self._place(index)] if keyed is not None else None

    def open(
        self, bodies: Mapping[int, Body], take: Callable[[int], Sequence[RequestId]], now: datetime
    ) -> dict[int, Request]:
        """Make the requests of the admitted entries, under ids that their keys will answer with.

        Entries whose key has just been given to something else are missing, and in ``refused``.

        Raises:
            KeyReusedError: the call's key has.
            IdsError: no ids can be issued.
        """
        queued_at = from_ms(to_ms(now))
        fresh = self._fresh_ids(bodies, take)
        opening = [
            Keyed(
                name=name,
                digest=self._digests[name],
                ids=(fresh[index],),
                rules=(_rule_version(bodies[index]),),
                queued_at=queued_at,
            )
            for index, name in self._names.items()
            if index in bodies and name.kind is KeyKind.ENTRY and name not in self._standing
        ]
        if self._call is not None and self._call not in self._standing:
            opening.append(
                Keyed(
                    name=self._call,
                    digest=self._digests[self._call],
                    ids=tuple(fresh[index] for index in range(self._size)),
                    rules=tuple(
                        _rule_version(bodies[index])
                        if index in bodies and self._names[index] == self._call
                        else None
                        for index in range(self._size)
                    ),
                    queued_at=queued_at,
                )
            )
        if opening:
            self._stand(self._keys.open(self._queue_key, opening, kept_until(self._biz, now)))
        return {
            index: self._request(index, body, fresh, queued_at)
            for index, body in bodies.items()
            if index not in self.refused
        }

    def _fresh_ids(
        self, bodies: Mapping[int, Body], take: Callable[[int], Sequence[RequestId]]
    ) -> dict[int, RequestId]:
        """Take an id for each entry that has none; a new key of a call has one a position."""
        wanted = [index for index in bodies if self._of(index) is None]
        if self._call is not None and self._call not in self._standing:
            wanted = list(range(self._size))
        return dict(zip(wanted, take(len(wanted)) if wanted else (), strict=True))

    def _request(
        self, index: int, body: Body, fresh: Mapping[int, RequestId], queued_at: datetime
    ) -> Request:
        keyed, an_id = self._of(index), fresh.get(index)
        if keyed is not None:
            an_id, queued_at = keyed.ids[self._place(index)], keyed.queued_at
            admitted = self.admitted(index)
            if admitted is not None:
                # Another one, at the same moment, was first, and by another version.
                body = replace(body, rule=admitted.rule, rule_version=admitted.version)
        if an_id is None:
            raise AssertionError("an entry without a key has no id")
        return Request(
            id=an_id,
            tenant=self._queue_key.tenant,
            biz=self._queue_key.biz,
            queued_at=queued_at,
            body=body,
            job=self._of_entry[index].job,
            priority=self._of_entry[index].priority,
            user=self._of_entry[index].user,
        )

    def keyed(self, indices: Collection[int]) -> list[int]:
        """Return those of the entries that come under a key."""
        return [index for index in indices if index in self._names]

    def close(self, accepted: Collection[int]) -> None:
        """Note the keys whose requests are all stored, so that a repetition has nothing to do."""
        whole = [
            keyed
            for name, keyed in self._standing.items()
            if not keyed.stored
            and all(
                index in accepted
                for index, admitted in zip(self._indices(name), keyed.rules, strict=False)
                if admitted is not None
            )
        ]
        if whole:
            self._keys.close(self._queue_key, whole)

    def _indices(self, name: KeyName) -> Sequence[int]:
        return range(self._size) if name == self._call else (self._firsts[name],)

    def _of(self, index: int) -> Keyed | None:
        name = self._names.get(index)
        return self._standing.get(name) if name is not None else None

    def _place(self, index: int) -> int:
        return index if self._names[index] == self._call else 0


def _rule_version(body: Body) -> admission.RuleVersion:
    return admission.RuleVersion(body.rule, body.rule_version)
