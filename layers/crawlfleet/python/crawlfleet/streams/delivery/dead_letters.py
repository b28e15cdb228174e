"""Dead letters of delivery: list, show and replay those of a biz.

A replayed one is pending as if never tried, and goes where its subscription delivers now. Whatever
became of it before, its message has the same id.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.kernel import paging
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.validation import named
from crawlfleet.streams.delivery.models import DeadLetter, Reason
from crawlfleet.streams.delivery.mongo.dead_letters import MongoStreamDeadLetters
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.streams.targets import Target, target_of

#: The most that one call replays.
MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """Count what a call replayed; ``cursor`` is where the next call goes on, None at the end."""

    count: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeadLetters:
    """List, show and replay the dead letters of deliveries."""

    store: MongoStreamDeadLetters
    subscriptions: MongoSubscriptions

    def find(
        self,
        tenant: str,
        biz: str,
        *,
        subscription: str | None = None,
        reason: str | None = None,
        cursor: str | None = None,
        limit: int,
    ) -> Listing[DeadLetter]:
        """List dead letters, oldest first; the cursor of a page goes on after it.

        Raises:
            InvalidRequestError: there is no such reason, or the cursor is none.
        """
        found = self.store.find(
            tenant,
            biz,
            subscription=subscription,
            reason=_reason(reason),
            after=None if cursor is None else paging.decode_job(cursor),
            limit=limit + 1,
        )
        page = found[:limit]
        last = page[-1] if page else None
        position = cursor if last is None else paging.encode_job(last.dead_at, last.id)
        return Listing(page, position, more=len(found) > limit)

    def get(self, tenant: str, biz: str, id_: str) -> DeadLetter:
        """Show one dead letter.

        Raises:
            NotFoundError: there is none of this id.
        """
        found = self.store.get(tenant, biz, id_)
        if found is None:
            raise NotFoundError(f"there is no dead letter {id_[:80]!r} of a subscription")
        return found

    def replay(self, tenant: str, biz: str, id_: str, now: datetime) -> None:
        """Replay one dead letter.

        Raises:
            NotFoundError: there is none of this id; it may have been replayed.
        """
        self._replay([self.get(tenant, biz, id_)], now)

    def replay_many(
        self,
        tenant: str,
        biz: str,
        now: datetime,
        *,
        subscription: str | None = None,
        reason: str | None = None,
        cursor: str | None = None,
        limit: int = MOST,
    ) -> Replayed:
        """Replay up to ``limit`` dead letters; say where to go on.

        Raises:
            InvalidRequestError: as :meth:`find`.
        """
        page = self.find(
            *(tenant, biz),
            subscription=subscription,
            reason=reason,
            cursor=cursor,
            limit=min(limit, MOST),
        )
        count = self._replay(page.items, now)
        return Replayed(count, page.cursor if page.more else None)

    def _replay(self, dead: list[DeadLetter], now: datetime) -> int:
        targets: dict[str, Target] = {}
        for tenant, biz, name in {(one.tenant, one.biz, one.subscription) for one in dead}:
            standing = self.subscriptions.get(tenant, biz, name)
            if standing is not None and standing.content.deliver is not None:
                targets[name] = target_of(standing.content.deliver.named)
        return self.store.replay(dead, targets, now)


def _reason(text: str | None) -> Reason | None:
    if text is not None and text not in list(Reason):
        raise InvalidRequestError.of("reason", f"is unknown: expected {named(Reason, text)}")
    return None if text is None else Reason(text)


def dead_letters_over(nodes: MongoNodes) -> StreamDeadLetters:
    """Open the dead letters of subscriptions over the home node."""
    store = MongoStreamDeadLetters(nodes)
    return StreamDeadLetters(store=store, subscriptions=MongoSubscriptions(nodes))
