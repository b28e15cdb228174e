"""Re-crawl pages (SPEC.md H7): those that are due become requests; what is read is remembered.

A page that is due is put off for a moment, so that nobody else submits it; its request is stored;
then it is put off until it would be due again if nothing were heard of it. Whoever dies on the way
leaves it put off for :data:`GRACE`, after which it comes again: nothing is lost. If the request was
stored by then the page is asked for twice, which with validators costs hardly anything. When the
request is done, what was seen of the page says when it is due next.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import active_queues, biz_of, share_of
from crawlfleet.crawling.frontier.fingerprint import ResolverOf, keys_of
from crawlfleet.crawling.frontier.models import Seed, SeedSpec
from crawlfleet.crawling.recrawl import policy as recrawl
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.kernel import errors
from crawlfleet.kernel.fairness import TENANT, by_shares, in_turns
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, SteadyTime, from_ms, to_ms
from crawlfleet.kernel.urls import problem_with
from crawlfleet.requests.models import Body, Claim, Request
from crawlfleet.requests.submission.admission import Accepted, Admission, Refused, Submission
from crawlfleet.requests.submission.service import Submissions
from crawlfleet.requests.visits import Recollection, Visit, VisitTotals, is_visit

#: Pages submitted in one step, and steps of one queue key in one tick.
BATCH: Final = 1_000
STEPS_A_TICK: Final = 20
#: Due pages wait while so many requests are queued: what people submit goes first.
AHEAD: Final = 10_000
#: A step takes no longer than this, or its pages come again.
GRACE: Final = timedelta(minutes=5)
#: The tick has other things to do than to wait for a silent node, one queue key after the other.
MARGIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recrawl:
    """Submits due pages. Its bounds are pages submitted at once, steps a tick, and pages ahead."""

    submission: Submissions
    visits: MongoVisits
    batch: int = BATCH
    steps_a_tick: int = STEPS_A_TICK
    ahead: int = AHEAD
    steady: SteadyTime = STEADY

    def resubmit_due(self, tree: Tree, now: datetime, time_left: Callable[[], float]) -> int:
        """Submit what is due under every queue key; return how many pages.

        A queue key that cannot be served is logged and stops no other. What there is no
        time and no room for stays due.
        """
        count = 0
        shares, turns = partial(share_of, tree), in_turns(active_queues(tree), now)
        for queue_key in by_shares(turns, TENANT, shares, self.steady.now):
            biz = tree.bizs[queue_key.tenant][queue_key.biz]
            if biz.recrawl is None or not biz.recrawl.schedule:
                continue
            try:
                for _ in range(self.steps_a_tick):
                    if time_left() < MARGIN_SECONDS:
                        return count
                    done = self.resubmit(tree, queue_key, biz, now)
                    count += done
                    if not done:
                        break
            except errors.BacklogFullError as error:
                warn(f"due pages of {queue_key.biz} stay due until there is room", error)
            except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                warn(f"due pages of {queue_key.biz} could not be submitted", error)
        return count

    def resubmit(self, tree: Tree, queue_key: QueueKey, biz: Biz, now: datetime) -> int:
        """Submit the pages of a queue key that are longest due, a batch at most; return how many.

        With a BacklogFullError nothing was put off; after a StoreUnavailableError it comes again.
        """
        policy = biz.recrawl
        if policy is None or not policy.schedule:
            return 0
        submission = self.submission
        if submission.queue.depth(queue_key).queued >= self.ahead:
            return 0
        due = self.visits.due(queue_key, biz, now, self.batch)
        if not due:
            return 0
        # The rate is the clients': pages are not due any slower for it.
        submission.make_room(tree, queue_key, len(due), replace(biz.intake, per_second=None), now)
        mine = self.visits.put_off(queue_key, biz, [(visit, now + GRACE) for visit in due])
        bodies = _bodies(submission, queue_key, biz, mine)
        stored = _store(submission, queue_key, biz, bodies, now)
        # What can be no request any more, its rule being gone, is so tomorrow, too.
        settled = [visit for visit in mine if visit.key in stored or visit.key not in bodies]
        self.visits.put_off(
            queue_key, biz, [(visit, recrawl.put_off(policy, visit, now)) for visit in settled]
        )
        return len(stored)


def _bodies(
    submissions: Submissions, queue_key: QueueKey, biz: Biz, visits: Sequence[Visit]
) -> dict[str, Body]:
    """Make the pages' requests, by key; their rule versions are stored as they are now."""
    admission = Admission(biz)
    bodies = {}
    refused: list[errors.InvalidRequestError] = []
    for visit in visits:
        body = admission.admit(Submission(url=visit.url, rule=visit.rule))
        if isinstance(body, Body):
            bodies[visit.key] = replace(body, depth=visit.depth, meta=visit.meta)
        else:
            refused.append(errors.InvalidRequestError(body))
    for name in admission.rules:
        if (reader := biz.reader(name)) is not None:
            submissions.rules.keep_version(queue_key, name, reader)
    if refused:
        warn(f"{len(refused)} known pages of {queue_key.biz} are not read again", refused[0])
    return bodies


def _store(
    submissions: Submissions,
    queue_key: QueueKey,
    biz: Biz,
    bodies: Mapping[str, Body],
    now: datetime,
) -> set[str]:
    """Persist and queue; return the keys of the pages whose requests are stored."""
    if not bodies:
        return set()
    ids = submissions.ids.take(queue_key, biz.id_kind, len(bodies))
    queued_at = from_ms(to_ms(now))
    requests = [
        Request(
            id=an_id,
            tenant=queue_key.tenant,
            biz=queue_key.biz,
            queued_at=queued_at,
            body=body,
            job=f"recrawl.{now:%Y%m%d}",
        )
        for an_id, body in zip(ids, bodies.values(), strict=True)
    ]
    receipts = submissions.persist_and_enqueue(queue_key, biz, requests, now)
    if refusals := [receipt.error for receipt in receipts if isinstance(receipt, Refused)]:
        warn(f"due pages of {queue_key.biz} come again", refusals[0])
    return {
        key for key, receipt in zip(bodies, receipts, strict=True) if isinstance(receipt, Accepted)
    }


def prepare(
    visits: MongoVisits,
    queue_key: QueueKey,
    biz: Biz,
    claims: Sequence[Claim],
    resolver_of: ResolverOf,
) -> dict[RequestId, Recollection]:
    """Look up what is known of the pages that are to be read, by request.

    Requests that are no plain visits of a page are missing, and all are where re-crawling is off
    or nothing can be known for now: of those nothing is remembered either. A page has the key that
    it has as a seed of its rule.
    """
    if biz.recrawl is None:
        return {}
    bodies = {claim.request.id: claim.request.body for claim in claims}
    keys = {}
    reported: set[str] = set()
    for an_id, body in bodies.items():
        if not is_visit(body):
            continue
        try:
            keys[an_id] = resolver_of(biz, body.rule)(body.url, biz.seeds.keys).hex()
        except errors.InvalidRequestError as error:
            # A URL that no key can be made of fails by itself, once it is asked for; a resolver
            # that is not there is an error of the configuration.
            field = error.problems[0].field
            if field != "url" and field not in reported:
                reported.add(field)
                warn("pages are not remembered", error)
    if not keys:
        return {}
    try:
        known = visits.known(queue_key, biz, list(keys.values()))
    except errors.StoreError as error:
        warn("pages are read as if they had never been", error)
        return {}
    return {
        an_id: Recollection(
            key=key,
            previous=known.get(key),
            validators=recrawl.condition(biz.recrawl, known.get(key), bodies[an_id]),
        )
        for an_id, key in keys.items()
    }


def undue(
    visits: MongoVisits, queue_key: QueueKey, biz: Biz, seeds: Mapping[str, Seed]
) -> dict[str, str]:
    """Say why pages of new seeds need not be fetched in their segment, by key in hex.

    None is spared where the policy does not say so, or nothing can be known for now.
    """
    if biz.recrawl is None or not biz.recrawl.due_only:
        return {}
    plain = [key for key, seed in seeds.items() if _is_plain(seed.spec)]
    try:
        known = visits.known(queue_key, biz, plain)
    except errors.StoreError as error:
        warn("pages are fetched as if they had never been read", error)
        return {}
    found: dict[str, str] = {}
    for key, visit in known.items():
        spec, at = seeds[key].spec, seeds[key].due_at
        reader = biz.reader(spec.rule)
        if reader is not None and recrawl.is_undue(visit, spec.rule, reader.version, at):
            read, due = (
                moment.isoformat(timespec="seconds").replace("+00:00", "Z")
                for moment in (visit.visited_at, recrawl.due_at(visit))
            )
            found[key] = f"read at {read}, and not due before {due}"
    return found


def _is_plain(spec: SeedSpec) -> bool:
    """Tell whether the request of a seed is one that a visit is kept of."""
    return spec.method == "GET" and not (spec.headers or spec.repeat)


def seen(
    biz: Biz, recollection: Recollection, body: Body, page: Page, content: str, now: datetime
) -> Visit | None:
    """Make the visit that ends with this page; None where re-crawling has been switched off.

    ``content`` is what crawling.recrawl.policy makes of the page, and not read for a 304. The
    visit is to be kept once the records are: a page whose records are lost must not count as read.
    """
    if biz.recrawl is None:
        return None
    previous, key = recollection.previous, recollection.key
    said = page.status, recrawl.validators_of(page.headers, now)
    return recrawl.next_visit(biz.recrawl, previous, key, body, *said, content, now)


def get_visit(
    visits: MongoVisits, tree: Tree, tenant: str, biz_name: str, url: str, resolver_of: ResolverOf
) -> Visit:
    """Return the last visit of a page by any URL of it, by whatever rule.

    Raises NotFoundError if the page was never read, or is forgotten, or the biz remembers none.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    if fault := problem_with(url):
        raise errors.InvalidRequestError.of("url", fault)
    keys = [key.hex() for key in keys_of(url, biz, resolver_of)]
    found = visits.known(queue_key, biz, keys)
    if found:
        return max(found.values(), key=lambda visit: visit.visited_at)
    if biz.recrawl is None:
        message = f"biz {queue_key.biz} remembers no pages: its document has no recrawl"
        raise errors.NotFoundError(message)
    raise errors.NotFoundError("nothing is known of the page: it was not read yet, or is forgotten")


def totals(
    visits: MongoVisits, tree: Tree, tenant: str, biz_name: str, now: datetime
) -> VisitTotals:
    """Sum up what is known of all pages of a biz."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    return visits.totals(queue_key, biz, now)
