"""In which order jobs wait for workers, and how many may (SPEC.md B4, B6).

**Inside a tenant** by rank, the least first: when the job came, less what its priority is worth. As
ranks stand still while time goes on, what waits gains on whatever comes later: a job is overtaken
only by those that come within ``10 * GAIN_MS`` after it. One whose demand was lowered comes anew,
and of no priority: behind all that is there, and no further behind what comes than that.

**Among tenants** by turns: each award moves its tenant on by ``SCALE / weight``, and who has moved
on least is read first. Who comes anew begins where those are who are served now, so nobody saves
turns up by staying away. This is start-time fair queueing (Goyal, Vin and Cheng, 1996) of jobs of
equal length.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.board import Decline, JobKey, Note, Offer, WhyNot
from crawlfleet.model.times import to_ms

#: 2020: ranks are below that by what priorities are worth, and never below 0.
_EARLIEST_MS: Final = 1_577_836_800_000
#: What a priority is worth above the one below it.
GAIN_MS: Final = 60_000
#: A turn of a tenant whose weight is 1.
SCALE: Final = 1_000_000
MOST_WEIGHT: Final = 1_000
HIGHEST_PRIORITY: Final = 10

OFFER_BYTES: Final = 8_192
APPLICATION_BYTES: Final = 2_048
#: Why workers did not apply: characters of a pool's reason, jobs told of in one call.
WHY_CHARACTERS: Final = 200
MOST_WHYS: Final = 100
#: For so long after a worker of a pool was found that suits a job, and is busy, its pool counts as
#: one that does, whatever others of it lack.
SUITS: Final = timedelta(seconds=60)
#: Jobs that are read in one call, and how far from the head.
MOST_READ: Final = 100
DEEPEST: Final = 200
#: A job that was acknowledged is not offered anew for so long: whoever wins writes that down first.
BEGUN: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardBounds:
    """Bounds of a board. What does not fit is MongoDB's alone, and offered later.

    Args:
        tenant_offers: Offers of one tenant; where there are many tenants fewer, so that all
            together are bounded.
        most_offers: A tenant may add to its own while it has less than its part of these.
        least_offers: So many each tenant may have, however many there are.
        most_pools: Pools that jobs are pinned to at once.
        most_applications: For one job.
        most_notes: Pools of which a job keeps a reason; of more, the latest.
    """

    tenant_offers: int = 10_000
    most_offers: int = 100_000
    least_offers: int = 10
    most_pools: int = 64
    most_applications: int = 100
    most_notes: int = 33

    def room(self, tenants: int) -> int:
        """Count the offers that a tenant may have where so many have any, itself included.

        >>> bounds = BoardBounds()
        >>> bounds.room(1), bounds.room(100), bounds.room(50_000)
        (10000, 1000, 10)
        """
        part = self.most_offers // max(1, tenants)
        return max(self.least_offers, min(self.tenant_offers, part))


def rank(now_ms: int, priority: int) -> int:
    """Where a job stands in its tenant's queue that comes now; the least is first.

    >>> rank(1_000_000_000, 5) < rank(1_000_060_000, 5) == rank(1_000_120_000, 6)
    True
    """
    return now_ms - priority * GAIN_MS


def turn(weight: int) -> int:
    """By how much an award moves its tenant on.

    >>> turn(1), turn(4)
    (1000000, 250000)
    """
    return SCALE // weight


def name_of(key: JobKey) -> str:
    """A job's key as one word.

    >>> name_of(("acme", "docs", "june.1"))
    'acme/docs/june.1'
    """
    return "/".join(key)


def key_of(name: str) -> JobKey:
    """The key of :func:`name_of`.

    Raises:
        ValueError: it is none.
    """
    tenant, biz, job = name.split("/", 2)
    return tenant, biz, job


def check_offer(offer: Offer) -> None:
    """Refuse an offer that the board cannot keep.

    Raises:
        InvalidRequestError: names what is wrong with it.
    """
    check_bytes("document", offer.document, OFFER_BYTES)
    if offer.since is not None and to_ms(offer.since) < _EARLIEST_MS:
        raise InvalidRequestError.of("since", "lies before there were jobs")
    for field, value, least, most in (
        ("priority", offer.priority, 0, HIGHEST_PRIORITY),
        ("weight", offer.weight, 1, MOST_WEIGHT),
        ("lowered", offer.lowered, 0, 1_000),
    ):
        if not least <= value <= most:
            raise InvalidRequestError.of(field, f"is {value}, not from {least} to {most}")
    for field, text in (("tenant", offer.tenant), ("biz", offer.biz), ("job", offer.job)):
        if not is_word(text) or text == "*" or (field != "job" and "/" in text):
            raise InvalidRequestError.of(field, "is no name of one")
    if offer.pool is not None:
        check_pool(offer.pool)


def check_pool(pool: str) -> None:
    """Refuse what is no pool's name, with an :class:`InvalidRequestError`."""
    if not is_word(pool) or pool == "-":
        raise InvalidRequestError.of("pool", "is no name of one")


def check_worker(worker: str) -> None:
    """Refuse what is no worker's id, with an :class:`InvalidRequestError`."""
    if not is_word(worker):
        raise InvalidRequestError.of("worker", "is no worker's id")


def check_bytes(field: str, document: bytes, most: int) -> None:
    """Refuse a document that is too large, with an :class:`InvalidRequestError`."""
    if len(document) > most:
        raise InvalidRequestError.of(field, f"has {len(document):,} bytes, more than {most:,}")


def is_word(text: str) -> bool:
    """Whether it is a word of printable ASCII, as all names here are.

    >>> [is_word(text) for text in ("june.1", "", "a b", "x" * 300)]
    [True, False, False, False]
    """
    return 0 < len(text) <= 256 and all("!" <= letter <= "~" for letter in text)


def why(text: str) -> str:
    """A reason as it is kept: one line, bounded."""
    return " ".join(text.split())[:WHY_CHARACTERS]


def noted(said: Decline, before: Note | None, now: datetime) -> Note:
    """What is kept of a decline, with since when its pool says the same.

    A pool suits a job where any worker of it does: that others lack what one has takes no effect
    while that one is heard of.
    """
    since = now
    if before is not None:
        is_less = (before.kind, said.kind) == (WhyNot.BUSY, WhyNot.LACKS)
        if is_less and before.lowered == said.lowered and now - before.at < SUITS:
            return before
        is_same = (before.kind, before.lowered) == (said.kind, said.lowered)
        if is_same or (before.kind.is_unanswered and said.kind.is_unanswered):
            since = before.since
    return Note(kind=said.kind, lowered=said.lowered, why=why(said.why), since=since, at=now)
