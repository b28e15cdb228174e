"""A worker's part in seeds: links become seeds once each, whatever crashes, and seeds end."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.jobs import MemoryJobs
from tests.kit.frontier import (
    FrontierClient,
    SeedSpec,
    SeedState,
    tend_seeds,
)
from tests.kit.jobs import Job, JobState
from tests.kit.kernel import ConnectFailedError, PageGoneError, StoreUnavailableError
from tests.kit.requests import (
    Dead,
    Done,
    Harvest,
    Link,
    Retry,
    State,
)
from tests.kit.spiders import Start
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.doubles import Failing, Titles
from tests.kit.worlds.frontier import a_spec, url
from tests.kit.worlds.memory import DOCS, OTHER, START
from tests.kit.worlds.worker import work
from tests.unit.crawling.frontier.found_links import (
    a_claim,
    found,
    linking,
    requests,
    seeds,
    spied,
    states,
)


@pytest.fixture(autouse=True)
def _quick(world):
    world.pace(dispatch_seeds=0.01)


def submitted(world, *numbers, **facts):
    return worlds.submitted(world, *map(url, numbers), **facts)


@pytest.fixture
def frontier(world):
    return FrontierClient(world.seeding(), world.clock)


def end(frontier, world, claim, outcome, *, lost=(), queue_key=DOCS):
    frontier.ended(queue_key, world.biz, [(claim, outcome)], set(lost))


# ---- links become seeds --------------------------------------------------------------------------


def test_a_crawl_follows_its_links_and_does_each_page_once(world):
    submitted(world, 1)
    pages = linking(p1=(2, 3), p2=(3, 4, 1), p3=(1, 2), p4=(4,))

    report = work(world, pages)

    assert (report.done, report.links, report.stopped_because) == (4, 3, "idle")
    assert requests(world) == [1, 2, 3, 4]
    assert states(world) == dict.fromkeys((1, 2, 3, 4), SeedState.FINISHED)
    assert [seeds(world)[url(n)].spec.depth for n in (1, 2, 4)] == [0, 1, 2]


def test_seeds_know_by_whom_and_for_what_job_they_were_found(world):
    [an_id] = submitted(world, 1, job="a.job")

    work(world, linking(p1=(2,), p2=()))

    spec = seeds(world)[url(2)].spec
    assert (spec.found_by, spec.job, spec.rule) == (an_id, "a.job", "page")


def test_links_are_seeds_before_the_outcome_is_stored(world):
    submitted(world, 1)
    seen = []

    class Watching:
        def __getattr__(self, name):
            return getattr(world.store, name)

        def settle(self, *args):
            seen.append(set(states(world)))
            return world.store.settle(*args)

    work(world, linking(p1=(2, 3), p2=(), p3=()), store=Watching())

    assert seen[0] == {1, 2, 3}


def test_a_crash_between_seeds_and_outcome_loses_none_and_doubles_none(world):
    submitted(world, 1)
    pages = linking(p1=(2, 3), p2=(1,), p3=(2,))

    report = work(world, pages, store=Failing(world.store, settle=1))

    assert (report.done, report.links) == (3, 2)
    assert requests(world) == [1, 2, 3]
    assert states(world) == dict.fromkeys((1, 2, 3), SeedState.FINISHED)


def test_a_repeated_page_of_a_dead_worker_adds_the_same_seeds(world, frontier):
    outcomes = [(a_claim(1), found(2, 3))]
    assert frontier.add_links(DOCS, world.biz, outcomes) == 2  # and it dies

    another = FrontierClient(world.seeding(), world.clock)

    assert another.add_links(DOCS, world.biz, outcomes) == 0
    assert set(states(world)) == {1, 2, 3}


def test_while_seeds_cannot_be_stored_outcomes_wait(world):
    [an_id] = submitted(world, 1)
    ports = world.seeding()
    object.__setattr__(ports, "seeds", Failing(world.seeds, insert=2))

    report = work(world, linking(p1=(2,), p2=()), seeding=ports)

    assert report.done == 2
    assert world.store.get(DOCS, world.biz, an_id).attempts == 1
    assert any("insert: no answer" in warning for warning in world.warnings)


def test_links_that_nobody_can_go_to_stop_no_other_and_not_the_page(world):
    [an_id] = submitted(world, 1)
    bad = (
        Link(url="ftp://example.org/"),
        Link(url="https://example.org/\ud800"),
        Link(url="https://example.org/" + "a" * 9_000),
        Link(url="https://user:pw@example.org/"),
        Link(url=url(7), rule="unheard of"),
        Link(url=url(8), meta={"x": object()}),
        Link(url=url(9), headers={"X": "a\r\nb"}),
        Link(url=url(10), meta={"x": "y" * 70_000}),
    )

    class Bad(Titles):
        def harvest(self, rule, page, depth=0, meta=None):
            harvest = super().harvest(rule, page, depth, meta)
            return replace(harvest, links=(*bad, *harvest.links, *bad))

    report = work(world, linking(p1=(2,), p2=()), extractor=Bad())

    assert (report.done, report.dead, report.links) == (2, 0, 1)
    assert world.store.get(DOCS, world.biz, an_id).state == State.DONE
    # Four of each page are known for what they are when the page is read; who finds the others
    # out can tell nobody but the operator.
    assert [warning.split()[0] for warning in world.warnings] == ["8", "8"]
    assert set(states(world)) == {1, 2}


def test_a_link_that_breaks_the_offering_costs_its_page_and_no_other(world):
    """No part makes such a link; one that is made must not keep the settler busy for ever."""
    ids = submitted(world, 1, 2)

    class Broken(Titles):
        def harvest(self, rule, page, depth=0, meta=None):
            if page.url == url(1):
                return Harvest(links=(Link(url=None),))
            return super().harvest(rule, page, depth, meta)

    report = work(world, linking(p1=(), p2=(3,), p3=()), extractor=Broken())

    assert (report.done, report.dead, report.stopped_because) == (2, 1, "idle")
    assert world.store.get(DOCS, world.biz, ids[0]).state == State.DEAD


def test_many_links_are_added_in_batches(world):
    ports, spy = spied(world)
    frontier = FrontierClient(ports, world.clock, links_a_call=100)
    outcomes = [(a_claim(1), found(*range(10, 160))), (a_claim(2), found(*range(100, 200)))]

    assert frontier.add_links(DOCS, world.biz, outcomes) == 190
    # The two that were submitted as they are, and then the links.
    assert [len(seeds) for _, _, seeds in spy.of("insert")] == [2, 100, 50, 40]


# ---- what was submitted as it is -----------------------------------------------------------------


def test_a_page_that_was_submitted_is_a_seed_once_it_has_links(world):
    submitted(world, 1, 5)

    work(world, linking(p1=(2,), p2=(1,), p5=()))

    assert requests(world) == [1, 2, 5]
    assert set(states(world)) == {1, 2}


def test_what_is_nobodys_page_is_adopted_by_none(world, frontier):
    posted = a_claim(1, method="POST", body=b"x")
    of_a_seed = a_claim(2, seed="20260301/aa")

    frontier.add_links(DOCS, world.biz, [(posted, found(3)), (of_a_seed, found(3))])

    assert set(states(world)) == {3}


def test_a_seed_that_is_there_already_stays_what_it_is(world):
    ports = world.seeding()
    mine = a_spec(1, found_by=7)
    assert list(ports.add_running(DOCS, world.biz, [mine], START)[0]) == [7]
    before = seeds(world)

    assert ports.add_running(DOCS, world.biz, [replace(mine, found_by=8)], START)[0] == {}
    assert seeds(world) == before
    assert before[url(1)].request == 7


def test_only_requests_with_urls_that_can_be_seeds_are_adopted(world):
    specs = [
        a_spec(1, found_by=1),
        a_spec(1, found_by=2),
        a_spec(3),
        SeedSpec(url="ftp://example.org/", rule="page", found_by=4),
    ]

    running, _ = world.seeding().add_running(DOCS, world.biz, specs, START)

    assert list(running) == [1]
    [seed] = seeds(world).values()
    assert (seed.state, seed.id) == (SeedState.HANDED, running[1])
    assert seed.due_at == START + timedelta(seconds=world.biz.seeds.lease_seconds)


# ---- links that others have made known -----------------------------------------------------------


@pytest.fixture
def jobs(world):
    made = MemoryJobs()
    made.create(
        Job(
            tenant="default",
            biz="docs",
            name="a.job",
            state=JobState.RUNNING,
            rule="page",
            rule_version="v",
            start=Start(urls=(url(1),)),
            size=1,
            created_at=START,
            by="api",
        )
    )
    return made


def known_links(jobs):
    job = jobs.get("default", "docs", "a.job")
    return job.known_links, job.known_in


def test_links_that_others_made_known_are_counted_once_each_in_their_job(world, jobs):
    ports = world.seeding(jobs=jobs)
    ports.add(DOCS, world.biz, [a_spec(1, job="other"), a_spec(2), a_spec(3, job="a.job")], START)
    frontier = FrontierClient(ports, world.clock)

    # The page itself is one of them, and is read; 4 is new.
    for _ in range(2):
        frontier.add_links(DOCS, world.biz, [(a_claim(1), found(1, 2, 2, 3, 4))])
        frontier.add_links(DOCS, world.biz, [(a_claim(5), found(1, 2, 4))])

    assert known_links(jobs) == (1, "2026-03-01")
    again = FrontierClient(ports, world.clock)
    again.add_links(DOCS, world.biz, [(a_claim(5), found(1, 3, 4))])
    assert known_links(jobs) == (2, "2026-03-01")


def test_in_a_segment_of_its_own_a_job_knows_nothing_of_others_and_looks_nothing_up(world, jobs):
    ports, spy = spied(world)
    object.__setattr__(ports, "jobs", jobs)
    ports.add(DOCS, world.biz, [a_spec(2)], START)
    frontier = FrontierClient(ports, world.clock)
    own = "2026-03-01T00:00:00Z.a.job"

    assert frontier.add_links(DOCS, world.biz, [(a_claim(1, segment=own), found(2, 3))]) == 2
    assert frontier.add_links(DOCS, world.biz, [(a_claim(9, segment=own), found(2, 3))]) == 0

    assert known_links(jobs) == (0, None)
    assert spy.of("jobs_of") == []
    assert {seed.segment for seed in seeds(world).values() if seed.spec.segment} == {own}


def test_links_are_followed_where_those_that_are_known_cannot_be_counted(world, jobs):
    ports = world.seeding(jobs=Failing(jobs, note_known=1))
    ports.add(DOCS, world.biz, [a_spec(2)], START)

    frontier = FrontierClient(ports, world.clock)
    assert frontier.add_links(DOCS, world.biz, [(a_claim(1), found(2, 3))]) == 1

    assert known_links(jobs) == (0, None)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Done(()), SeedState.FINISHED),
        (Dead("cannot be stored", "Unstorable"), SeedState.FAILED),
        (Retry(START, "again"), SeedState.HANDED),
    ],
    ids=["done", "dead", "retry"],
)
def test_an_adopted_seed_ends_as_its_request_does_and_not_before(world, frontier, outcome, state):
    claim = a_claim(1)
    frontier.add_links(DOCS, world.biz, [(claim, found(2))])

    end(frontier, world, claim, outcome)

    assert states(world)[1] == state
    end(frontier, world, claim, Done(()))
    assert states(world)[1] == (SeedState.FINISHED if state == SeedState.HANDED else state)


def test_an_adopted_seed_whose_request_is_anothers_now_is_left_to_that_one(world, frontier):
    claim = a_claim(1)
    frontier.add_links(DOCS, world.biz, [(claim, found(2))])

    end(frontier, world, claim, Done(()), lost={1})
    end(frontier, world, claim, Done(()))

    assert states(world)[1] == SeedState.HANDED


def test_queues_whose_counters_gave_the_same_id_keep_their_adopted_seeds_apart(world, frontier):
    for queue_key in (DOCS, OTHER):
        frontier.add_links(queue_key, world.biz, [(a_claim(1, queue_key=queue_key), found(2))])

    end(frontier, world, a_claim(1), Done(()))
    end(frontier, world, a_claim(1, queue_key=OTHER), Dead("gone"), queue_key=OTHER)

    assert states(world)[1] == SeedState.FINISHED
    assert states(world, OTHER)[1] == SeedState.FAILED


def test_adopted_requests_are_remembered_within_bounds(world):
    frontier = FrontierClient(world.seeding(), world.clock, most_running=3)

    for number in range(10, 20):
        frontier.add_links(DOCS, world.biz, [(a_claim(number), found(2))])

    for number in range(10, 20):
        end(frontier, world, a_claim(number), Done(()))
    ended = {number for number, state in states(world).items() if state == SeedState.FINISHED}
    assert ended == {17, 18, 19}


# ---- seeds end -----------------------------------------------------------------------------------


def test_seeds_end_with_their_requests(world):
    submitted(world, 1)
    pages = linking(p1=(2, 3), p2=()) | {url(3): PageGoneError("answered 410")}

    report = work(world, pages)

    assert (report.done, report.dead) == (2, 1)
    assert states(world) == {
        1: SeedState.FINISHED,
        2: SeedState.FINISHED,
        3: SeedState.FAILED,
    }
    assert "is dead" in seeds(world)[url(3)].why


def test_a_seed_whose_request_is_to_be_tried_again_has_not_ended(world):
    submitted(world, 1)
    pages = linking(p1=(2,)) | {url(2): ConnectFailedError("refused")}

    work(world, pages)

    assert states(world)[2] == SeedState.HANDED


@pytest.mark.parametrize("error", [ValueError("odd"), StoreUnavailableError("mongodb", "away")])
def test_a_seed_that_cannot_be_ended_does_not_undo_what_is_stored(world, error):
    submitted(world, 1)

    class Forgetful:
        def __getattr__(self, name):
            return getattr(world.seeds, name)

        def ended(self, *_):
            raise error

    ports = world.seeding()
    object.__setattr__(ports, "seeds", Forgetful())

    report = work(world, linking(p1=(2,), p2=()), seeding=ports)

    assert (report.done, report.lost, report.dead) == (2, 0, 0)
    assert set(states(world).values()) == {SeedState.HANDED}
    assert any(str(error) in warning for warning in world.warnings)
    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.leased) == (0, 0)
    # The tick finds out.
    world.now += timedelta(seconds=world.biz.seeds.lease_seconds + 1)
    tend_seeds(world.seeding(), world.tree, world.now, lambda: 600.0)
    assert set(states(world).values()) == {SeedState.FINISHED}
