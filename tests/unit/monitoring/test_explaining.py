"""Every state told: the chain in the order of time, and where the request stands."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from tests.fakes.ledger import MemoryJournal
from tests.kit.ceilings import CeilingState
from tests.kit.explain import (
    JOURNAL_LINES,
    KEPT_EVENTS,
    Explanation,
    QuotaExplainer,
    RequestExplainer,
    StepKind,
)
from tests.kit.fleet import WorkerHeartbeats, WorkerStatus
from tests.kit.kernel import InvalidRequestError, NotFoundError, to_ms
from tests.kit.mongo import LOG_LENGTH
from tests.kit.monitoring import TenantState
from tests.kit.queue import Depth
from tests.kit.requests import Answer, Body, Event, JournalLine, Request, State, Tracked
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, OTHER, START, World

ID = 400_000_000_000_000_000


class Stored:
    """A store, a queue and a watch that say what the test says."""

    def __init__(
        self, tracked: Tracked, depth: Depth, came: dict[int, int], *heartbeats: WorkerHeartbeats
    ) -> None:
        self._tracked, self._depth, self._heartbeats = tracked, depth, list(heartbeats)
        self._came = came

    def get(self, queue_key, biz, request_id):
        return self._tracked if (queue_key, request_id) == (DOCS, ID) else None

    def depth(self, queue_key):
        return self._depth

    def per_second(self, queue_key, now):
        return self._came, {}

    def heartbeats(self, silent_for=None):
        return self._heartbeats


class Sharing:
    """Tenants' shares as the test says; the default tenant has the workers alone."""

    def __init__(self, **facts) -> None:
        self._own = TenantState(tenant="default", **({"part": 1.0} | facts))

    def of(self, tree, tenant, now):
        return self._own


def at(seconds: float):
    return START + timedelta(seconds=seconds)


def an_event(seconds: float, state: State, by: str = "w", why: str = "because") -> Event:
    return Event(at=at(seconds), state=state, by=by, why=why)


def a_tracked(state: int, *events: Event, **changes) -> Tracked:
    request = Request(
        id=ID,
        tenant="default",
        biz="docs",
        queued_at=START,
        body=Body(url="https://example.org/", rule="page", rule_version="v"),
        job=changes.pop("job", None),
    )
    first = Event(at=START, state=State.PENDING, by="router", why="submitted")
    return Tracked(
        request=request,
        state=state,
        timeline=(first, *events),
        attempts=changes.pop("attempts", 0),
        **changes,
    )


def beats(worker: str, silent_ms: int = 100) -> WorkerHeartbeats:
    worker_status = WorkerStatus(started_ms=1, held={"acme/docs": 7})
    return WorkerHeartbeats(
        worker=worker, silent_ms=silent_ms, intervals=(1_000,) * 20, worker_status=worker_status
    )


def reported(
    tracked: Tracked,
    *heartbeats: WorkerHeartbeats,
    seconds: float = 60,
    depth: Depth | None = None,
    came: dict[int, int] | None = None,
    journal: MemoryJournal | None = None,
    **broken,
) -> Explanation:
    world = World()
    said = Stored(tracked, depth or Depth(queued=0, leased=0, delayed=0), came or {}, *heartbeats)
    ports = {
        "store": said,
        "queue": said,
        "detector": said,
        "journal": journal or MemoryJournal(),
        "shares": Sharing(),
        "quotas": QuotaExplainer(world.quotas, world.jobs.quota_terms),  # type: ignore[arg-type]
    }
    wired = RequestExplainer(**(ports | broken))
    return wired.explain(world.tree, "default", "docs", str(ID), at(seconds))


def test_as_many_events_are_kept_as_the_stores_keep():
    assert KEPT_EVENTS == LOG_LENGTH


def test_the_chain_begins_with_who_submitted_and_under_which_job():
    found = reported(a_tracked(State.PENDING, job="nightly"))

    assert "tenant default, job nightly" in found.steps[0].why
    assert (found.steps[0].kind, found.steps[0].state) == (StepKind.REQUEST, State.PENDING)


def test_what_befell_the_queue_stands_in_its_place_and_only_during_the_requests_life():
    journal = MemoryJournal()
    for seconds in (-5, 3, 50):
        line = JournalLine(at=at(seconds), by="scheduler", kind="filled", why="empty", count=1200)
        journal.note(DOCS, line)
    journal.note(OTHER, JournalLine(at=at(3), by="scheduler", kind="filled", why="theirs"))
    events = (an_event(2, State.LEASED), an_event(4, State.DONE))

    found = reported(a_tracked(State.DONE, *events, attempts=1), journal=journal)

    assert [(step.at, step.kind, step.state) for step in found.steps] == [
        (at(0), StepKind.REQUEST, State.PENDING),
        (at(2), StepKind.REQUEST, State.LEASED),
        (at(3), StepKind.QUEUE_KEY, None),
        (at(4), StepKind.REQUEST, State.DONE),
    ]
    assert found.steps[2].why.startswith("filled: empty (1,200 ")


@pytest.mark.parametrize(
    ("seconds", "about", "before"), [(30, "roughly", 40), (90, "at most", 40), (2, "roughly", 60)]
)
def test_a_pending_request_is_reported_how_long_it_waits_who_is_before_it_and_who_works(
    seconds, about, before
):
    depth = Depth(queued=101, leased=0, delayed=0, heads={5: to_ms(at(-5))})
    second = to_ms(START) // 1_000
    came = {second - 1: 999, second: 40, second + 3: 20} if seconds > 3 else {second: 40}

    found = reported(
        a_tracked(State.PENDING),
        beats("w"),
        beats("v", 60_000),
        depth=depth,
        came=came,
        seconds=seconds,
    ).standing

    assert found.facts == {
        "waited_seconds": float(seconds),
        "queued": 101,
        "before": before,
        "workers_alive": 1,
        "tenant_in_flight": 0,
        "tenant_part": 1.0,
    }
    assert f"{about} {before} of 101" in found.sentence


def test_a_pending_request_that_no_queue_can_hold_is_reported_so():
    found = reported(a_tracked(State.PENDING)).standing

    assert "recovery queues it" in found.sentence
    assert "no worker lives" in found.sentence


def test_without_redis_the_rest_is_reported():
    pending = reported(a_tracked(State.PENDING), queue=Broken(), detector=Broken()).standing
    leased = reported(
        a_tracked(State.LEASED, an_event(2, State.LEASED)), detector=Broken()
    ).standing

    assert "does not answer" in pending.sentence
    assert "worker_health" not in leased.facts


def test_a_leased_request_is_reported_by_whom_since_when_until_when_and_how_that_one_is():
    tracked = a_tracked(
        State.LEASED, an_event(2, State.LEASED), worker="w", due_at=at(90), attempts=2
    )

    found = reported(tracked, beats("w", 4_400)).standing

    assert found.facts["worker_health"] == "suspected"
    assert 4 < found.facts["worker_phi"] < 8
    assert (found.facts["since"], found.facts["lease_until"], found.facts["attempt"]) == (
        "2026-03-01T12:00:02Z",
        "2026-03-01T12:01:30Z",
        2,
    )
    assert "acme" not in str(found)


def test_a_lease_that_has_ended_and_a_worker_nobody_knows_are_said():
    tracked = a_tracked(State.LEASED, an_event(2, State.LEASED), worker="w", due_at=at(30))

    sentence = reported(tracked).standing.sentence

    assert "ended at 2026-03-01T12:00:30Z" in sentence
    assert "not known (any more)" in sentence


def test_a_waiting_request_is_reported_when_it_is_due_and_because_of_what():
    answer = Answer(url="https://example.org/", status=503)
    tracked = a_tracked(
        State.WAITING,
        an_event(3, State.WAITING),
        attempts=1,
        due_at=at(90),
        error="Throttled: answered 503",
        reason="Throttled",
        answer=answer,
    )

    found = reported(tracked).standing

    assert (found.facts["reason"], found.facts["status"]) == ("Throttled", 503)
    assert "Attempt 1 of 3" in found.sentence
    assert "2026-03-01T12:01:30Z, in 30 s" in found.sentence
    assert "no worker lives" in found.sentence
    assert "now: the next" in reported(tracked, seconds=100).standing.sentence


def test_a_done_request_is_reported_what_it_gave_and_how_long_it_took():
    events = (an_event(2, State.LEASED), an_event(3, State.DONE))
    tracked = a_tracked(State.DONE, *events, attempts=1, records=1, worker="w")

    found = reported(tracked).standing

    assert (found.facts["records"], found.facts["took_seconds"]) == (1, 3.0)
    assert "gave 1 record, at 2026-03-01T12:00:03Z" in found.sentence


def test_a_dead_letter_is_reported_why_what_the_site_said_and_what_to_do():
    tracked = a_tracked(
        State.DEAD,
        an_event(3, State.DEAD),
        attempts=1,
        error="PageGone: answered 404",
        reason="PageGone",
        answer=Answer(url="https://example.org/", status=404),
    )

    found = reported(tracked).standing

    assert (found.facts["reason"], found.facts["status"]) == ("PageGone", 404)
    assert "404" in found.sentence
    assert found.sentence.endswith(f"have it worked on again: `crawlfleet dead replay docs {ID}`.")


@pytest.mark.parametrize(
    ("state", "flag", "words"),
    [
        (State.CANCELLED, 5, "cancelled by w at 2026-03-01T12:00:03Z"),
        (State.EXPIRED, 6, "not worked on within 7 d"),
        (State.PENDING, 100, "It is reviewed, a state of this biz's own"),
    ],
)
def test_every_other_state_has_its_sentence(state, flag, words):
    assert words in reported(a_tracked(flag, an_event(3, state))).standing.sentence


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (State.LEASED, "Worker ? works on it; that worker is not known"),
        (State.WAITING, "Attempt 0 of 3 failed: None."),
        (State.DONE, "It was read in attempt 0 and gave 0 records."),
        (State.DEAD, "It was given up on after 0 attempts: no reason was noted."),
        (State.CANCELLED, "It was cancelled."),
        (State.EXPIRED, "It was not worked on within 7 d"),
        (101, "It is 101, a state of this biz's own"),
    ],
)
def test_a_state_whose_event_is_not_kept_any_more_is_reported_all_the_same(flag, words):
    assert words in reported(a_tracked(flag)).standing.sentence


def test_a_timeline_that_was_longer_says_so():
    events = [an_event(n, State.LEASED) for n in range(1, KEPT_EVENTS + 1)]

    full = reported(a_tracked(State.LEASED, *events, attempts=80), seconds=99)
    whole = reported(a_tracked(State.LEASED, *events[1:], attempts=49), seconds=99)

    assert "last 50 changes" in full.missing
    assert "of 80 attempts the first 30" in full.missing
    assert whole.missing is None


def test_a_journal_that_has_more_lines_says_so():
    journal = MemoryJournal()
    for number in range(JOURNAL_LINES + 5):
        journal.note(DOCS, JournalLine(at=at(number / 10), by="w", kind="filled", why="x"))

    found = reported(a_tracked(State.PENDING), journal=journal)

    assert len(found.steps) == 1 + JOURNAL_LINES
    assert "first 100 lines" in found.missing


def test_a_request_of_nobody_and_an_id_that_is_none_are_refused():
    tracked = a_tracked(State.PENDING)
    elsewhere = msgspec.structs.replace(tracked)
    said = Stored(elsewhere, Depth(queued=0, leased=0, delayed=0), {})
    world = World()
    explainer = RequestExplainer(
        store=said,
        queue=said,
        detector=said,
        journal=MemoryJournal(),
        shares=Sharing(),
        quotas=QuotaExplainer(world.quotas, world.jobs.quota_terms),  # type: ignore[arg-type]
    )

    with pytest.raises(NotFoundError):
        explainer.explain(world.tree, "acme", "docs", str(ID), START)
    with pytest.raises(InvalidRequestError):
        explainer.explain(world.tree, "default", "docs", "no id", START)


def test_a_worker_that_nobody_observed_is_not_called_alive():
    tracked = a_tracked(State.LEASED, an_event(2, State.LEASED), worker="w", due_at=at(90))
    unwatched = replace(beats("w", 0), beat_ms=52_000)

    leased = reported(tracked, unwatched).standing
    pending = reported(a_tracked(State.PENDING), unwatched).standing

    assert leased.facts["worker_health"] == "unwatched"
    assert leased.facts["worker_silent_seconds"] == 52.0
    assert "52 s ago" in leased.sentence
    assert "alive" not in leased.sentence
    assert pending.facts["workers_alive"] == 0


def standing(shares) -> tuple[str, dict]:
    found = reported(a_tracked(State.PENDING), beats("w"), shares=shares).standing
    return found.sentence, found.facts


def test_a_request_that_waits_for_its_tenants_share_says_what_that_is():
    sentence, facts = standing(Sharing(part=0.25, in_flight=7))

    assert "its own has 25% of what workers can do, 7 in flight now" in sentence
    assert (facts["tenant_part"], facts["tenant_in_flight"]) == (0.25, 7)


def test_a_request_whose_tenant_is_alone_waits_for_no_share():
    sentence, facts = standing(Sharing(in_flight=7))

    assert "tenant" not in sentence
    assert facts["tenant_part"] == 1.0


def test_a_request_that_waits_for_its_tenants_ceiling_says_which_and_how_much_there_is():
    reached = CeilingState(limit="ceilings.in_flight", used=50, allowed=50)
    below = CeilingState(limit="ceilings.documents", used=50, allowed=51)

    sentence, facts = standing(Sharing(part=0.5, ceilings=(below, reached)))

    assert "waiting for its tenant's ceiling: it has 50 of 50 (ceilings.in_flight)" in sentence
    assert facts["tenant_limit"] == "ceilings.in_flight"


def test_a_request_whose_tenant_has_a_rate_says_it():
    rate = CeilingState(limit="ceilings.leases_per_second", allowed=2.5)

    sentence, _ = standing(Sharing(ceilings=(rate,)))

    assert "2.5 a second begin at most (ceilings.leases_per_second)" in sentence


def test_without_redis_the_share_is_left_out_and_not_the_explanation():
    sentence, facts = standing(Broken())

    assert "waiting to be worked on" in sentence
    assert "tenant_part" not in facts
