"""URLs told by their seeds, the last request, the page, and what would stop them now."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.frontier import MemorySeedFilter
from tests.kit.config import Follow, Politeness, RecrawlPolicy, Robots, Rule, SeedPolicy
from tests.kit.explain import (
    QuotaExplainer,
    RequestExplainer,
    StepKind,
    UrlExplainer,
    UrlExplanation,
    explaining_urls,
)
from tests.kit.frontier import seed_key, segment_of
from tests.kit.kernel import InvalidRequestError, UnknownRuleError, to_ms
from tests.kit.monitoring import SharesView
from tests.kit.politeness import HostReport, OwnAnswers, RobotsCopy
from tests.kit.requests import (
    OWN_FINAL,
    Dead,
    Done,
    State,
    Submission,
    Transition,
    Validators,
    Visit,
)
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.frontier import SeedWorld, a_spec, url
from tests.kit.worlds.memory import DOCS, START, make_biz, make_tree

DAY = timedelta(days=1)


@pytest.fixture
def world() -> SeedWorld:
    return SeedWorld()


def shares_of(world: SeedWorld) -> SharesView:
    return SharesView(detector=world.detector, queue=world.queue, sizes=world.ceilings().sizes)


def quotas_of(world: SeedWorld) -> QuotaExplainer:
    return QuotaExplainer(world.quotas, world.jobs.quota_terms)  # type: ignore[arg-type]


def explained(world: SeedWorld, address: str, rule: str | None = None, **changes) -> UrlExplanation:
    requests = RequestExplainer(
        store=world.store,
        queue=world.queue,
        journal=world.journal,
        detector=world.detector,
        shares=shares_of(world),
        quotas=quotas_of(world),
    )
    ports = {
        "requests": requests,
        "seeds": world.ports(),
        "visits": world.visits,
        "robots": world.robots,
        "hosts": world.hosts,
    }
    given = UrlExplainer(**(ports | changes))
    return given.explain(world.tree, "default", "docs", address, rule, world.now)


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
    assert "was not submitted, and is no seed" in found.standing.sentence
    assert "requests or seeds of" in found.missing


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


def test_a_dispatched_seed_is_explained_with_its_request(world):
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
    work(world, Dead(reason="PageGone", error="404"))

    found = explained(world, url(1))

    assert "and failed" in found.standing.sentence
    [seed] = world.seeds.of_keys(DOCS, world.biz, found.keys)
    assert f"`crawlfleet seeds release docs {seed.id}`" in found.standing.sentence
    [tracked] = world.requests()
    assert f"`crawlfleet dead replay docs {tracked.request.id}`. " in found.standing.sentence
    assert "after 1 attempt" in found.standing.sentence
    assert found.standing.sentence.count("404") == 1
    assert [step.why for step in found.steps if "404" in step.why] == ["404"]
    assert "failed, as its request" in [step.why for step in found.steps]


def test_a_seed_that_robots_txt_forbids_is_not_advised_to_be_tried_again(world):
    world.add(1)
    work(world, Dead(reason="RobotsDenied", error="robots.txt says no"))

    said = explained(world, url(1)).standing.sentence

    assert "`crawlfleet" not in said
    assert "It would end so again while the site forbids it." in said


def test_the_newest_seed_is_that_of_the_latest_time_not_of_the_last_name(world):
    world.add(replace(a_spec(1), segment=f"{START:%Y-%m-%dT%H:%M:%SZ}.wrong", job="wrong"))
    work(world, Dead(reason="PageGone", error="404"))
    world.now += timedelta(seconds=60)
    world.add(1)
    work(world, Done(records=(), links=()))

    found = explained(world, url(1))

    assert f"newest seed is of segment {START:%Y-%m-%d} and finished" in found.standing.sentence
    newest = max(world.requests(), key=lambda one: one.request.queued_at).request.id
    assert found.standing.facts["request_id"] == str(newest)
    assert any(step.kind is StepKind.REQUEST for step in found.steps)


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
        "dispatched",
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

    requests = RequestExplainer(
        store=Empty(),
        queue=world.queue,
        journal=world.journal,
        detector=world.detector,
        shares=shares_of(world),
        quotas=quotas_of(world),
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
    read(world, Submission(url=url(9), rule="page"))
    world.tree = make_tree(make_biz(politeness=Politeness()))
    world.robots.save("https://example.org", copy, 3_600, "default")

    denied, allowed = explained(world, url(1)), explained(world, url(2))

    assert "Disallow: /1" in denied.standing.sentence
    assert denied.standing.sentence.endswith("a request of it would end dead, unread.")
    assert denied.standing.facts["robots_allow"] is False
    assert allowed.standing.facts["robots_allow"] is True
    world.robots.save("https://example.org", replace(copy, status=503, text=b""), 3_600, "default")
    assert explained(world, url(2)).standing.facts["robots_allow"] is None
    world.tree = make_tree(make_biz(politeness=Politeness(robots=Robots.IGNORE)))
    assert "robots_allow" not in explained(world, url(1)).standing.facts


def test_a_page_that_robots_txt_forbade_has_its_line_once_in_the_answer_and_in_the_steps(world):
    copy = RobotsCopy(status=200, text=b"User-agent: *\nDisallow: /1\n", fetched_ms=to_ms(START))
    world.tree = make_tree(make_biz(politeness=Politeness()))
    world.robots.save("https://example.org", copy, 3_600, "default")
    world.add(1)
    why = "https://example.org/robots.txt says to Crawlfleet: Disallow: /1"
    work(world, Dead(reason="RobotsDenied", error=why))

    found = explained(world, url(1))

    assert found.standing.sentence.count("Disallow: /1") == 1
    assert sum("Disallow: /1" in step.why for step in found.steps) == 1
    assert found.standing.facts["robots_allow"] is False


def test_a_host_in_back_off_is_reported_with_its_end(world):
    report = HostReport(
        host="example.org",
        origin="https://example.org",
        tenant="default",
        running=0,
        own=OwnAnswers(overloads=1, retry_after_seconds=120.0),
    )
    world.hosts.report([report], "w")
    world.add(1)

    found = explained(world, url(1))

    until = datetime.fromisoformat(found.standing.facts["back_off_until"])
    assert until.astimezone(UTC) >= world.now + timedelta(seconds=100)
    assert "example.org is left alone" in found.standing.sentence


def in_back_off(world):
    """Have the host be left alone, and its robots.txt be known, by what another tenant does."""
    report = HostReport(
        host="example.org",
        origin="https://example.org",
        tenant="rival",
        running=0,
        overloads=1,
        retry_after_seconds=120.0,
    )
    world.hosts.report([report], "w")
    copy = RobotsCopy(status=200, text=b"User-agent: *\nDisallow: /\n", fetched_ms=to_ms(START))
    world.robots.save("https://example.org", copy, 3_600, "default")


def test_of_a_host_that_the_biz_has_nothing_to_do_with_nothing_is_told(world):
    world.tree = make_tree(make_biz(politeness=Politeness()))
    in_back_off(world)

    found = explained(world, url(1))

    assert not {"robots_allow", "back_off_until"} & found.standing.facts.keys()
    assert "Disallow" not in found.standing.sentence
    assert "that this biz has requests or seeds of" in found.missing


def waiting_request(world):
    page = Submission(url=url(9), rule="page")
    world.submission().submit(world.tree, "default", "docs", [page], world.now)


def named_by_a_rule(world):
    following(world, domains=("example.org",))


@pytest.mark.parametrize("owns", [waiting_request, named_by_a_rule, lambda world: world.add(1)])
def test_a_host_is_the_bizs_own_by_a_seed_by_any_request_or_by_its_rules(world, owns):
    in_back_off(world)
    owns(world)

    assert "back_off_until" in explained(world, url(1)).standing.facts


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


# ---- what was submitted as it is, and what no page has led to ------------------------------------


def read(world: SeedWorld, *pages: Submission) -> None:
    submissions = world.submission()
    submissions.submit(world.tree, "default", "docs", pages, world.now)
    claims = world.claim(world.now + timedelta(seconds=60))
    world.settle([(claim, Done(())) for claim in claims])


def following(world: SeedWorld, **follow: object) -> None:
    rule = Rule(follow=(Follow(css="a[href]", **follow),))
    world.tree = make_tree(make_biz(rules={"page": rule}))


def said_of(world: SeedWorld, address: str) -> str:
    return explained(world, address).standing.sentence


def test_what_was_submitted_as_it_is_is_found_by_any_form_of_its_url(world):
    read(world, Submission(url=url(1), rule="page", job="june"))

    found = explained(world, f"{url(1)}?utm_source=x#top")

    [tracked] = world.requests()
    assert found.standing.facts["request_id"] == str(tracked.request.id)
    assert found.standing.facts["request_state"] == State.DONE
    assert "submitted as it is" in found.standing.sentence
    assert "under job june" in found.standing.sentence
    assert "It was read in attempt 1" in found.standing.sentence
    assert found.steps[0].kind is StepKind.REQUEST
    assert "submitted as it is" not in said_of(world, url(2))


@pytest.mark.parametrize(
    ("follow", "address", "why"),
    [
        ({}, "https://else.test/1", "else.test is outside of its domains (same_host; read was"),
        ({"domains": ("a.test", "b.test")}, url(9), "its domains (a.test, b.test; read was"),
        ({"deny": ("/z+$", "/9$")}, url(9), "its deny has '/9$'"),
        ({"allow": ("/[0-5]$",)}, url(9), "none of its allow is found in it ('/[0-5]$')"),
        ({"max_depth": 0}, url(9), "2 pages are 0 links deep, its max_depth"),
    ],
)
def test_a_url_that_no_page_led_to_is_explained_by_the_setting_that_refuses_it(
    world, follow, address, why
):
    following(world, **follow)
    read(world, Submission(url=url(1)), Submission(url=url(2)))

    said = said_of(world, address)

    assert "By rule page, follow[0] no link to it is followed" in said
    assert why in said


def test_a_url_that_is_followed_from_some_pages_says_what_else_may_keep_it(world):
    following(world, limit=20)
    read(world, Submission(url=url(1)), Submission(url="https://else.test/"))

    said = said_of(world, url(9))

    answer, refused = said.split(" By rule page, ")
    assert "These pages have no link to it, or not where it would be followed" in answer
    assert "(from 1 of 2 pages that were read, among the first 20 links" in answer
    assert "without nofollow" in answer
    assert f"`crawlfleet rule try page {url(1)} --remote --biz docs`" in answer
    assert "from the other pages: else.test is outside" not in refused
    assert "is outside of its domains" in refused


def test_what_holds_of_several_follows_is_said_once(world):
    rule = Rule(follow=(Follow(css="a.one"), Follow(css="a.other")))
    world.tree = make_tree(make_biz(rules={"page": rule}))
    read(world, Submission(url=url(1)))

    answer = said_of(world, url(9))

    assert "by rule page, follow[0], rule page, follow[1] (from 1 of 1 pages" in answer
    assert answer.count("that its selector finds there") == 1


def test_a_command_that_names_a_page_can_be_pasted_into_a_shell(world):
    following(world, limit=20)
    read(world, Submission(url=f"{url(1)}?a=1&b=2"))

    answer = said_of(world, url(9))

    assert f"`crawlfleet rule try page '{url(1)}?a=1&b=2' --remote --biz docs`" in answer


def two_rules(world: SeedWorld) -> None:
    chain = Rule(follow=(Follow(css="a", max_depth=0),))
    home = Rule(follow=(Follow(css="a", max_depth=0), Follow(css="b", rule="chain", deny=("/9",))))
    world.tree = make_tree(make_biz(rules={"chain": chain, "home": home}))
    read(world, Submission(url=url(1), rule="chain"), Submission(url=url(2), rule="home"))


def test_rules_that_refuse_a_link_for_the_same_reason_are_named_together(world):
    two_rules(world)

    said = said_of(world, url(9))

    assert "By rule chain, follow[0] and rule home, follow[0] no link to it is followed: 1" in said
    assert said.count("max_depth") == 1


def test_with_a_rule_only_the_links_that_it_would_read_are_explained(world):
    two_rules(world)

    said = explained(world, url(9), rule="chain").standing.sentence

    assert "rule chain, follow[0] no link" in said
    assert "rule home, follow[1] no link to it is followed: its deny has '/9'" in said
    assert "rule home, follow[0]" not in said


def ended_by_its_owner(world: SeedWorld, before: int) -> None:
    asked = Transition(before=before, after=OWN_FINAL, by="api:acme", why="reviewed")
    [tracked] = world.requests()
    world.store.transition(DOCS, world.biz, [tracked.request.id], asked, world.now)


def test_a_page_that_its_owner_has_put_into_a_final_state_of_the_bizs_own_was_read_too(world):
    following(world, deny=("/9$",))
    read(world, Submission(url=url(1)))
    ended_by_its_owner(world, State.DONE)

    assert "no link to it is followed: its deny has '/9$'" in said_of(world, url(9))


def test_a_page_that_its_owner_has_ended_unread_was_not(world):
    following(world, deny=("/9$",))
    world.submission().submit(
        world.tree, "default", "docs", [Submission(url=url(1), rule="page")], world.now
    )
    ended_by_its_owner(world, State.PENDING)

    assert "follow[0]" not in said_of(world, url(9))


def test_where_nothing_was_read_nothing_is_said_of_links(world):
    following(world)

    assert "follow[0]" not in said_of(world, url(9))


def test_older_requests_that_are_not_searched_are_named(world, monkeypatch):
    monkeypatch.setattr(explaining_urls, "SEARCHED", 2)
    read(world, *(Submission(url=url(number), rule="page") for number in (1, 2, 3)))

    assert "alone were searched" in explained(world, url(9)).missing
