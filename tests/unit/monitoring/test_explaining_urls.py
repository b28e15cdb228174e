"""URLs told by their seeds, the last request, the page, and what would stop them now."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.frontier import MemorySeedFilter
from tests.kit.config import Politeness, RecrawlPolicy, Robots, SeedPolicy
from tests.kit.explain import ExplainingPorts, StepKind, UrlExplanation, UrlPorts, explain_url
from tests.kit.frontier import seed_key, segment_of
from tests.kit.kernel import InvalidRequestError, UnknownRuleError, to_ms
from tests.kit.politeness import HostReport, RobotsCopy
from tests.kit.requests import Dead, Done, State, Validators, Visit
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.frontier import SeedWorld, a_spec, url
from tests.kit.worlds.memory import DOCS, START, make_biz, make_tree

DAY = timedelta(days=1)


@pytest.fixture
def world() -> SeedWorld:
    return SeedWorld()


def explained(world: SeedWorld, address: str, rule: str | None = None, **changes) -> UrlExplanation:
    requests = ExplainingPorts(
        store=world.store,
        queue=world.queue,
        journal=world.journal,
        detector=world.detector,
    )
    ports = {
        "requests": requests,
        "seeds": world.ports(),
        "visits": world.visits,
        "robots": world.robots,
        "hosts": world.hosts,
    }
    given = UrlPorts(**(ports | changes))
    return explain_url(given, world.tree, "default", "docs", address, rule, world.now)


def a_visit(number: int, **changes: object) -> Visit:
    known = Visit(
        key=seed_key(url(number)).hex(),
        url=url(number),
        rule="page",
        rule_version="v1",
        depth=0,
        visited_at=START,
        changed_at=START,
        interval_seconds=60.0,
        validators=Validators(),
        content="cd",
        visits=3,
        changes=1,
    )
    return replace(known, **changes)


def work(world: SeedWorld, outcome: Done | Dead) -> None:
    world.dispatch()
    claims = world.claim(world.now + timedelta(seconds=60))
    world.settle([(claim, outcome) for claim in claims])


def test_a_url_that_nobody_has_heard_of_would_be_accepted(world):
    found = explained(world, url(1))

    segment = segment_of(world.biz.seeds, world.now).name
    assert found.keys == (seed_key(url(1)).hex(),)
    assert found.steps == ()
    assert found.standing.facts == {"segment": segment, "accepted_now": True}
    assert "by its id" in found.missing


def test_a_waiting_seed_is_reported_with_who_found_it(world):
    world.add(a_spec(1, depth=2, found_by=77))

    found = explained(world, url(1) + "?utm_source=x#top")

    assert found.standing.facts["seed_state"] == "ready"
    assert found.standing.facts["accepted_now"] is False
    assert "duplicate: known" in found.standing.sentence
    [step] = found.steps
    assert (step.kind, step.by) == (StepKind.SEED, "request 77")
    assert "2 links deep" in step.why
    assert found.missing is None


def test_a_seed_of_the_future_says_when_its_time_comes(world):
    world.add(a_spec(1, starts_at=START + 2 * DAY))

    found = explained(world, url(1))

    assert f"its time: {START + 2 * DAY:%Y-%m-%dT%H:%M:%SZ}" in found.standing.sentence
    assert found.standing.facts["accepted_now"] is True


def test_a_seed_that_was_handed_out_is_reported_with_its_request(world):
    world.add(1)
    world.dispatch()
    [tracked] = world.requests()

    found = explained(world, url(1))

    facts = found.standing.facts
    assert facts["request_id"] == str(tracked.request.id)
    assert (facts["seed_state"], facts["request_state"]) == ("handed", State.PENDING)
    kinds = [step.kind for step in found.steps]
    assert kinds == [StepKind.SEED, StepKind.SEED, StepKind.REQUEST]


def test_a_seed_that_failed_says_why_and_what_to_do(world):
    world.add(1)
    work(world, Dead(reason="RobotsDenied", error="robots.txt says no"))

    found = explained(world, url(1))

    assert "and failed" in found.standing.sentence
    assert "`crawlfleet seeds release`" in found.standing.sentence
    assert "after 1 attempt" in found.standing.sentence
    assert any(step.why.startswith("failed: ") for step in found.steps)


def test_a_page_that_was_read_yesterday_may_be_read_again_today(world):
    world.add(1)
    work(world, Done(records=(), links=()))
    world.now += DAY

    found = explained(world, url(1))

    assert "and finished" in found.standing.sentence
    assert found.standing.facts["accepted_now"] is True
    world.add(1)
    again = explained(world, url(1))
    assert [step.why.split()[0] for step in again.steps if step.kind is StepKind.SEED] == [
        "offered",
        "handed",
        "finished",
        "offered",
    ]
    assert again.standing.facts["seed_state"] == "ready"


def test_a_request_that_is_gone_is_said_to_be(world):
    world.add(1)
    work(world, Done(records=(), links=()))
    [tracked] = world.requests()

    class Empty:
        def get(self, queue_key, biz, request_id):
            return None

    requests = ExplainingPorts(
        store=Empty(),
        queue=world.queue,
        journal=world.journal,
        detector=world.detector,
    )
    found = explained(world, url(1), requests=requests)

    assert f"request {tracked.request.id} is gone" in found.missing
    assert "newest seed" in found.standing.sentence


def test_a_page_that_is_no_seed_is_reported_by_its_visit(world):
    world.tree = make_tree(make_biz(recrawl=RecrawlPolicy(schedule=True)))
    due = START + DAY
    world.visits.saw(DOCS, world.biz, [a_visit(1, next_at=due)])

    found = explained(world, url(1))

    assert "was read at 2026-" in found.standing.sentence
    assert f"due again at {due:%Y-%m-%dT%H:%M:%SZ}" in found.standing.sentence
    assert [step.why.split(", ") for step in found.steps] == [
        ["read by page; 3 times in all", "1 changes"]
    ]
    other = a_visit(1, rule="other", visited_at=START + DAY)
    world.visits.saw(DOCS, world.biz, [other])
    assert explained(world, url(1)).steps[0].why.startswith("read by other")
    assert explained(world, url(1), rule="page").steps == ()


def test_a_url_that_the_filter_takes_for_another_is_reported_so(world):
    segment = segment_of(world.biz.seeds, world.now)
    world.filter.add(DOCS, world.biz, segment, [seed_key(url(1))])

    found = explained(world, url(1))

    assert "wrongly, as 0.001" in found.standing.sentence
    assert found.standing.facts["accepted_now"] is False
    assert not world.add(1)[0].accepted
    world.set_policy(exact=True)
    assert explained(world, url(1)).standing.facts["accepted_now"] is True


def test_what_robots_txt_says_is_reported_by_its_line(world):
    copy = RobotsCopy(status=200, text=b"User-agent: *\nDisallow: /1\n", fetched_ms=to_ms(START))
    world.tree = make_tree(make_biz(politeness=Politeness()))
    world.robots.save("https://example.org", copy, 3_600)

    denied, allowed = explained(world, url(1)), explained(world, url(2))

    assert "Disallow: /1" in denied.standing.sentence
    assert denied.standing.facts["robots_allow"] is False
    assert allowed.standing.facts["robots_allow"] is True
    world.robots.save("https://example.org", replace(copy, status=503, text=b""), 3_600)
    assert explained(world, url(2)).standing.facts["robots_allow"] is None
    world.tree = make_tree(make_biz(politeness=Politeness(robots=Robots.IGNORE)))
    assert "robots_allow" not in explained(world, url(1)).standing.facts


def test_a_host_in_back_off_is_reported_with_its_end(world):
    report = HostReport(
        host="example.org", tenant="default", running=0, overloads=1, retry_after_seconds=120.0
    )
    world.hosts.report([report], "w")

    found = explained(world, url(1))

    until = datetime.fromisoformat(found.standing.facts["back_off_until"])
    assert until.astimezone(UTC) >= world.now + timedelta(seconds=100)
    assert "example.org is left alone" in found.standing.sentence


def test_while_redis_is_away_the_rest_is_reported(world):
    world.tree = make_tree(make_biz(politeness=Politeness()))
    world.add(1)
    seeds = world.ports(filter=Broken())

    found = explained(world, url(1), seeds=seeds, robots=Broken(), hosts=Broken())
    strange = explained(world, url(2), seeds=seeds, robots=Broken(), hosts=Broken())

    assert found.standing.facts["seed_state"] == "ready"
    assert "robots.txt" in found.missing
    assert "its host" in found.missing
    assert "filter" in strange.missing


def test_one_rule_has_keys_of_its_own(world):
    world.tree = make_tree(make_biz(seeds=SeedPolicy(resolvers={"page": "whole"})))
    seeds = replace_resolver(world, lambda *_, **__: b"the same for all")
    world.add(1, resolver=seeds.resolver)

    found = explained(world, url(2), seeds=seeds)

    assert found.keys == (seed_key(url(2)).hex(), b"the same for all".hex())
    assert found.standing.facts["accepted_now"] is False
    only = explained(world, url(2), rule="page", seeds=seeds)
    assert only.keys == (b"the same for all".hex(),)


def replace_resolver(world: SeedWorld, resolve):
    def resolver_of(biz, rule):
        return resolve if rule in biz.seeds.resolvers else seed_key

    return world.ports(resolver=resolver_of, filter=MemorySeedFilter())


def test_what_is_no_url_and_what_is_no_rule_are_named(world):
    with pytest.raises(InvalidRequestError) as caught:
        explained(world, "javascript:x")
    assert caught.value.problems[0].field == "url"
    with pytest.raises(UnknownRuleError, match="nobodys"):
        explained(world, url(1), rule="nobodys")
