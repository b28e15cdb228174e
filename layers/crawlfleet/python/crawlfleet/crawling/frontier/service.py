"""Seeds as the API changes them: add, list, count, release, forget (SPEC.md F1-F5)."""

import base64
import binascii
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.frontier import models
from crawlfleet.crawling.frontier.adding import Frontier
from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
from crawlfleet.crawling.frontier.segments import NAME
from crawlfleet.kernel import errors
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import QueueKey

_SEED: Final = re.compile(rf"{NAME}/[0-9a-f]{{32}}\Z")
_ENDED: Final = frozenset({models.SeedState.FINISHED, models.SeedState.FAILED})
#: Digits that may end an id.
_HEX: Final = 16


class SeedsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a change of many seeds. ``more`` may match; go on from ``cursor``."""

    count: int
    cursor: str | None = None
    more: bool = False


def add_seeds(
    dispatcher: SeedDispatcher,
    tree: Tree,
    tenant: str,
    biz_name: str,
    specs: Sequence[models.SeedSpec | errors.InvalidRequestError],
    now: datetime,
) -> list[models.AddResult | errors.InvalidRequestError]:
    """Add a batch; one result each, in order. Errors name their fields as ``seeds[3].url``.

    An entry that could not be read comes as its error and goes back as its answer; one without a
    rule is of the only one that its biz has. Added again after a StoreUnavailableError, nothing is
    doubled. Each counts towards the biz's rate, as a submission does.

    Raises:
        BacklogFullError: the biz takes no more for now; nothing is stored.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    answers: dict[int, models.AddResult | errors.InvalidRequestError] = {}
    judged: dict[int, models.SeedSpec] = {}
    for index, one in enumerate(specs):
        if isinstance(one, errors.InvalidRequestError):
            answers[index] = one
        elif not one.rule and len(biz.readers) != 1:
            names = ", ".join(biz.readers[:10])
            problem = errors.Problem(f"seeds[{index}].rule", f"is missing; this biz has: {names}")
            answers[index] = errors.InvalidRequestError([problem])
        else:
            judged[index] = one if one.rule else msgspec.structs.replace(one, rule=biz.readers[0])
    if judged:
        dispatcher.submission.make_room(tree, queue_key, len(judged), biz.intake, now)
    reported = dispatcher.add_each(queue_key, biz, list(judged.values()), now)
    for index, answer in zip(judged, reported, strict=True):
        if isinstance(answer, errors.Problem):
            field = f"seeds[{index}].{answer.field}"
            answers[index] = errors.InvalidRequestError([errors.Problem(field, answer.message)])
        else:
            answers[index] = answer
    return [answers[index] for index in range(len(specs))]


def dispatch_added(
    dispatcher: SeedDispatcher, tree: Tree, tenant: str, biz_name: str, count: int, now: datetime
) -> None:
    """Begin at once, as far as there is room, with as many seeds as were just added."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    try:
        dispatcher.dispatch(tree, queue_key, biz, now, most=count)
    except errors.CrawlfleetError as error:
        warn("seeds are stored, and dispatched by the next tick", error)


def list_seeds(
    frontier: Frontier,
    tree: Tree,
    tenant: str,
    biz_name: str,
    meant: models.SeedSelection,
    *,
    cursor: str | None,
    limit: int,
) -> Listing[models.Seed]:
    """Return a page of seeds, in the order of segment and key."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    found = _find(frontier, queue_key, biz, meant, _place(cursor), limit + 1)
    shown = found[:limit]
    return Listing(shown, _cursor(shown), more=len(found) > limit)


def seed_totals(
    frontier: Frontier, tree: Tree, tenant: str, biz_name: str, now: datetime
) -> list[models.SeedTotals]:
    """Count the seeds by segment and state, the newest first, and the bytes of their filters."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    totals = frontier.seeds.totals(queue_key, biz, now)
    try:
        sizes = [frontier.filter.size(queue_key, each.segment) for each in totals]
    except errors.StoreUnavailableError as error:
        warn("seeds are counted without their filters", error)
        return totals
    replace = msgspec.structs.replace
    return [replace(each, filter_bytes=size) for each, size in zip(totals, sizes, strict=True)]


def release_seed(
    frontier: Frontier, tree: Tree, tenant: str, biz_name: str, seed: str, by: str, now: datetime
) -> models.Seed:
    """Make one failed or finished seed ready again; return it as it stands then.

    Raises NotFoundError if there is no such seed, ConflictError if it has not ended.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    [seed_id] = _ids([seed], "seed")
    if not frontier.seeds.release(queue_key, biz, [seed_id], f"released by {by}", now):
        found = _get(frontier, queue_key, biz, seed_id)
        raise errors.ConflictError(f"the seed has not ended: it is {found.state.label}")
    return _get(frontier, queue_key, biz, seed_id)


def release_seeds(
    frontier: Frontier,
    tree: Tree,
    tenant: str,
    biz_name: str,
    seeds: Sequence[str],
    by: str,
    now: datetime,
) -> SeedsChanged:
    """Make these seeds ready again, but for those that have not ended."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    ids = _ids(seeds, "seeds")
    return SeedsChanged(count=frontier.seeds.release(queue_key, biz, ids, f"released by {by}", now))


def release_those(
    frontier: Frontier,
    tree: Tree,
    tenant: str,
    biz_name: str,
    meant: models.SeedSelection,
    by: str,
    now: datetime,
    *,
    cursor: str | None,
    limit: int,
) -> SeedsChanged:
    """Make up to ``limit`` seeds of a filter ready again; failed ones unless it says.

    Raises InvalidRequestError if the filter names a state in which no seed can be released.
    """
    state = models.SeedState.FAILED if meant.state is None else meant.state
    if state not in _ENDED:
        raise errors.InvalidRequestError.of("filter.state", "must be failed or finished")
    queue_key, biz = biz_of(tree, tenant, biz_name)
    meant = msgspec.structs.replace(meant, state=state)
    found = _find(frontier, queue_key, biz, meant, _place(cursor), limit)
    count = 0
    if found:
        ids = [seed.id for seed in found]
        count = frontier.seeds.release(queue_key, biz, ids, f"released by {by}", now)
    return SeedsChanged(count=count, cursor=_cursor(found), more=len(found) == limit)


def forget_seed(frontier: Frontier, tree: Tree, tenant: str, biz_name: str, seed: str) -> None:
    """Remove one seed, so that its URL is accepted anew; NotFoundError if there is none."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    if not _forget(frontier, queue_key, biz, _ids([seed], "seed")):
        raise errors.NotFoundError(f"there is no seed {seed[:120]!r}")


def forget_seeds(
    frontier: Frontier, tree: Tree, tenant: str, biz_name: str, seeds: Sequence[str]
) -> SeedsChanged:
    """Remove these seeds, as many of them as there are."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    return SeedsChanged(count=_forget(frontier, queue_key, biz, _ids(seeds, "seeds")))


def forget_those(
    frontier: Frontier,
    tree: Tree,
    tenant: str,
    biz_name: str,
    meant: models.SeedSelection,
    *,
    cursor: str | None,
    limit: int,
) -> SeedsChanged:
    """Remove up to ``limit`` seeds of a filter."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    found = _find(frontier, queue_key, biz, meant, _place(cursor), limit)
    count = _forget(frontier, queue_key, biz, [seed.id for seed in found])
    return SeedsChanged(count=count, cursor=_cursor(found), more=len(found) == limit)


def _forget(frontier: Frontier, queue_key: QueueKey, biz: Biz, ids: Sequence[str]) -> int:
    """Remove them from the store, and then the filters that still know them.

    A filter forgets nothing but itself; without it URLs are looked up until it has learned anew.
    It goes last: else a URL added in between would teach it what is about to be forgotten.
    """
    if not ids:
        return 0
    count = frontier.seeds.forget(queue_key, biz, ids)
    for segment in dict.fromkeys(seed_id.rpartition("/")[0] for seed_id in ids):
        frontier.filter.drop(queue_key, segment)
    return count


def _find(
    frontier: Frontier,
    queue_key: QueueKey,
    biz: Biz,
    meant: models.SeedSelection,
    after: str | None,
    limit: int,
) -> list[models.Seed]:
    state = None if meant.state is None else int(meant.state)
    return frontier.seeds.find(
        queue_key, biz, segment=meant.segment, state=state, after=after, limit=limit
    )


def _get(frontier: Frontier, queue_key: QueueKey, biz: Biz, seed_id: str) -> models.Seed:
    segment = seed_id.rpartition("/")[0]
    # What follows an id without its last digit is that id, or one that differs there.
    found = frontier.seeds.find(
        queue_key, biz, segment=segment, state=None, after=seed_id[:-1], limit=_HEX
    )
    for seed in found:
        if seed.id == seed_id:
            return seed
    raise errors.NotFoundError(f"there is no seed {seed_id!r}")


def _ids(seeds: Sequence[str], field: str) -> list[str]:
    wrong = [
        errors.Problem(field if field == "seed" else f"{field}[{index}]", "is no seed: segment/key")
        for index, seed in enumerate(seeds)
        if not _SEED.match(seed)
    ]
    if wrong:
        raise errors.InvalidRequestError(wrong)
    return list(seeds)


def _cursor(seeds: Sequence[models.Seed]) -> str | None:
    if not seeds:
        return None
    return base64.urlsafe_b64encode(seeds[-1].id.encode()).decode().rstrip("=")


def _place(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        place = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        place = ""
    if not _SEED.match(place):
        raise errors.InvalidRequestError.of("cursor", "is no cursor of this list")
    return place
