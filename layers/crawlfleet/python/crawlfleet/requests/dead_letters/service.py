"""Dead letters: list, replay and purge them, one or many by what they share.

A replay makes the dead letter a pending request in MongoDB first, then queues it where it is served
next, then sees that a worker lives. If Redis does not answer, recovery queues it later. Each verb
may be repeated.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.kernel import errors
from crawlfleet.kernel import paging as cursors
from crawlfleet.kernel.ids import OWN, State, parse_id
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.validation import named
from crawlfleet.requests.dead_letters.models import DeadLetterFilter, host_named
from crawlfleet.requests.dead_letters.mongo import MongoDeadLetters
from crawlfleet.requests.models import Entry, JournalLine, Tracked
from crawlfleet.requests.mongo.ledger import MongoJournal
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.outcomes import REASONS
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.submission.mongo import MongoRules
from crawlfleet.requests.submission.tracking import state_label
from crawlfleet.requests.submission.transitions import serve_next
from crawlfleet.requests.submission.waking import Waker, WakeReservations

#: The most dead letters that one call replays or purges.
MOST: Final = 1_000
#: No search is begun after so many seconds; the cursor lets the caller go on.
SEARCH_SECONDS: Final = 5.0
#: The longest text that dead letters are searched for.
LONGEST_TEXT: Final = 255


@dataclass(frozen=True, slots=True)
class Changed:
    """Count the dead letters that a call changed.

    ``skipped`` matched, but their biz's time to live has passed, so that a replay would come to
    nothing; a call without a cursor counts them, up to its limit. ``cursor`` is where the next call
    goes on, None at the end. A caller that begins anew instead meets what was replayed and has died
    again meanwhile.
    """

    count: int
    skipped: int = 0
    cursor: str | None = None

    @property
    def more(self) -> bool:
        """Tell whether others may match."""
        return self.cursor is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """List, replay and purge dead letters.

    ``most`` and ``search_seconds`` bound what one call changes, and how long it searches. What is
    done to one dead letter is refused by NotFoundError where there is none of that id, and by
    ConflictError where the request is not dead.
    """

    dead_letters: MongoDeadLetters
    store: MongoRequestStore
    queue: RedisQueue
    workers: WakeReservations
    waker: Waker
    rules: MongoRules
    journal: MongoJournal
    most: int = MOST
    search_seconds: float = SEARCH_SECONDS

    def list_dead_letters(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        dead_letters: DeadLetterFilter,
        *,
        cursor: str | None,
        limit: int,
        now: datetime,
    ) -> Listing[Tracked]:
        """List dead letters by time of queueing, oldest first.

        A page may hold fewer than ``limit``, even none, and still say that there is more: the
        search took too long. At the end the cursor is None.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        found, resume = self._find(queue_key, biz, _checked(dead_letters), cursor, limit, now)
        return Listing(found, resume, resume is not None)

    def get_dead_letter(self, tree: Tree, tenant: str, biz_name: str, text_id: str) -> Tracked:
        """Get one dead letter, with the site's last answer."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        return self._dead(queue_key, biz, text_id, "dead letters")

    def replay_one(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        text_id: str,
        *,
        current_rule: bool,
        by: str,
        now: datetime,
    ) -> Tracked:
        """Replay one dead letter; return it as it then stands.

        Raises:
            ConflictError: it is not dead, or its time to live has passed.
            UnknownRuleError: it is to be read with the present rule, and there is none.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        found = self._dead(queue_key, biz, text_id, "replayed")
        if found.request.queued_at < _oldest(biz, now):
            raise errors.ConflictError(
                f"the request was queued at {found.request.queued_at.isoformat()} and its time to"
                " live has passed: submit the page anew"
            )
        versions = self._present(queue_key, biz, [found]) if current_rule else {}
        entries = self.dead_letters.replay(queue_key, biz, [found.request.id], versions, by, now)
        if not entries:  # somebody else was quicker
            self._dead(queue_key, biz, text_id, "replayed")
        self._serve(queue_key, entries, [found], now)
        return self.store.get(queue_key, biz, found.request.id) or found

    def purge_one(
        self, tree: Tree, tenant: str, biz_name: str, text_id: str, *, by: str, now: datetime
    ) -> Tracked:
        """Purge one dead letter; return what it was."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        found = self._dead(queue_key, biz, text_id, "purged")
        if not self.dead_letters.purge(queue_key, biz, [found.request.id], by, now):
            self._dead(queue_key, biz, text_id, "purged")
        self._note_purge(queue_key, by, f"dead letter {found.request.id}", 1, now)
        return found

    def replay(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        dead_letters: DeadLetterFilter,
        *,
        current_rule: bool,
        by: str,
        limit: int,
        now: datetime,
        cursor: str | None = None,
    ) -> Changed:
        """Replay dead letters, oldest first, at most ``limit`` of them.

        Raises:
            UnknownRuleError: one is to be read with the present rule, and there is none; nothing
                was changed.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        dead_letters, limit = _checked(dead_letters), min(limit, self.most)
        oldest, skipped = _oldest(biz, now), 0
        if cursor is None:
            until = min(dead_letters.until or oldest, oldest)
            gone = msgspec.structs.replace(dead_letters, until=until)
            skipped = len(self._find(queue_key, biz, gone, None, limit, now)[0])
        since = max(dead_letters.since or oldest, oldest)
        alive = msgspec.structs.replace(dead_letters, since=since)
        found, resume = self._find(queue_key, biz, alive, cursor, limit, now)
        versions = self._present(queue_key, biz, found) if current_rule else {}
        ids = [one.request.id for one in found]
        entries = self.dead_letters.replay(queue_key, biz, ids, versions, by, now) if ids else []
        self._serve(queue_key, entries, found, now)
        return Changed(len(entries), skipped, resume)

    def purge(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        dead_letters: DeadLetterFilter,
        *,
        by: str,
        limit: int,
        now: datetime,
        cursor: str | None = None,
    ) -> Changed:
        """Purge dead letters, oldest first, at most ``limit`` of them."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        dead_letters, limit = _checked(dead_letters), min(limit, self.most)
        found, resume = self._find(queue_key, biz, dead_letters, cursor, limit, now)
        ids = [one.request.id for one in found]
        count = self.dead_letters.purge(queue_key, biz, ids, by, now) if ids else 0
        if count:
            self._note_purge(queue_key, by, f"dead letters, {_said(dead_letters)}", count, now)
        return Changed(count, 0, resume)

    def _find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        dead_letters: DeadLetterFilter,
        cursor: str | None,
        limit: int,
        now: datetime,
    ) -> tuple[list[Tracked], str | None]:
        """Search until there are ``limit``, no more, or no time; return where to go on, too."""
        after = None if cursor is None else cursors.decode(cursor)
        found: list[Tracked] = []
        started = time.monotonic()
        while True:
            page = self.dead_letters.find(
                queue_key, biz, dead_letters, after=after, limit=limit - len(found), now=now
            )
            found += page.dead_letters
            after = page.reached
            if after is None:
                return found, None
            if len(found) >= limit or time.monotonic() - started > self.search_seconds:
                return found, cursors.encode(after)

    def _dead(self, queue_key: QueueKey, biz: Biz, text_id: str, done: str) -> Tracked:
        """Get the dead letter of that id; ``done`` is what only dead ones can be."""
        request_id = parse_id(text_id)
        found = self.store.get(queue_key, biz, request_id)
        if found is None:
            raise errors.NotFoundError(f"there is no request {request_id}")
        if found.state != State.DEAD:
            raise errors.ConflictError(_other(queue_key, biz, found, done))
        return found

    def _present(
        self, queue_key: QueueKey, biz: Biz, dead_letters: Iterable[Tracked]
    ) -> dict[str, str]:
        """Store the present versions of the dead letters' rules; return them by rule."""
        # Without a rule are those that nobody can read.
        names = sorted({one.request.body.rule for one in dead_letters} - {""})
        if gone := [name for name in names if biz.reader(name) is None]:
            there = named(biz.readers, gone[0]) or "none"
            message = f"the biz has no rule called {', '.join(map(repr, gone))} any more; "
            message += f"it has: {there}"
            raise errors.UnknownRuleError(message)
        readers = {name: reader for name in names if (reader := biz.reader(name))}
        for name, reader in readers.items():
            self.rules.keep_version(queue_key, name, reader)
        return {name: reader.version for name, reader in readers.items()}

    def _serve(
        self,
        queue_key: QueueKey,
        entries: list[Entry],
        dead_letters: Iterable[Tracked],
        now: datetime,
    ) -> None:
        """Queue pending requests where they are served next, and wake a worker."""
        pools = {one.request.id: one.request.pool for one in dead_letters}
        pending = [(pools.get(entry.id), entry) for entry in entries]
        if not serve_next(self.queue, self.workers, self.waker, queue_key, pending):
            self.store.note_unqueued(queue_key, now)

    def _note_purge(
        self, queue_key: QueueKey, by: str, what: str, count: int, now: datetime
    ) -> None:
        """Note a purge in the journal: the timeline of a dead letter goes with it."""
        line = JournalLine(at=now, by=by, kind="purged", why=what, count=count)
        try:
            self.journal.note(queue_key, line)
        except errors.StoreUnavailableError as error:
            warn("the journal could not be written", error)


def _other(queue_key: QueueKey, biz: Biz, found: Tracked, done: str) -> str:
    """Say that a request is not dead; where its state is the biz's own, which call changes that."""
    state = state_label(biz, found.state)
    said = f"the request is {state}: only dead ones are {done}"
    if found.state < OWN:
        return said
    there = biz.transitions.get(state, ())
    meanings = {"dead": "makes it one", "pending": "has it worked on anew"}
    for to, meaning in meanings.items():
        if to in there:
            of = f"{queue_key.biz} {found.request.id} --from {state} --to {to}"
            return f"{said}; `crawlfleet transition {of}` {meaning}"
    return f"{said}, and the biz has no transition from {state} to dead"


def _oldest(biz: Biz, now: datetime) -> datetime:
    """Return the earliest time of queueing that is still worked on."""
    return from_ms(to_ms(now - timedelta(seconds=biz.ttl_seconds)) + 1)


def _said(dead_letters: DeadLetterFilter) -> str:
    given = ((name, getattr(dead_letters, name)) for name in dead_letters.__struct_fields__)
    return ", ".join(f"{name} {value}" for name, value in given if value is not None) or "all"


def _checked(dead_letters: DeadLetterFilter) -> DeadLetterFilter:
    """Validate the filter and normalise its host.

    Raises:
        InvalidRequestError: a text is too long, or none that could be stored; nothing is given up
            on for such a reason; the host is none.
    """
    for name in ("reason", "rule", "host", "job", "text"):
        value = getattr(dead_letters, name)
        if value is None:
            continue
        if not value or len(value) > LONGEST_TEXT:
            raise errors.InvalidRequestError.of(name, f"must have 1 to {LONGEST_TEXT} characters")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise errors.InvalidRequestError.of(name, "is not valid text")
    if dead_letters.reason is not None and dead_letters.reason not in REASONS:
        raise errors.InvalidRequestError.of("reason", f"is none of {', '.join(REASONS)}")
    if dead_letters.host is None:
        return dead_letters
    host = host_named(dead_letters.host)
    if host is None:
        raise errors.InvalidRequestError.of("host", "is no host, such as shop.example")
    return msgspec.structs.replace(dead_letters, host=host)
