"""A rule tried: what the router asks, what the worker does, with everything in memory."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from tests.fakes.fetching import MemoryFetcher
from tests.fakes.politeness import MemoryHosts, MemoryRobotsCache
from tests.fakes.reading import MemoryPageReader
from tests.fakes.trials import MemoryTrials
from tests.kit.config import (
    FetchLimits,
    Field,
    Follow,
    HostLimits,
    Politeness,
    ProxyPool,
    Rule,
    Secret,
    Spider,
)
from tests.kit.fetching import NO_FETCH_CONTEXT, SecretTexts, StorePlaces
from tests.kit.kernel import (
    AddressRefusedError,
    ExtractError,
    InvalidRequestError,
    Problem,
    StoreUnavailableError,
    ThrottledError,
    UnknownBizError,
    UnknownRuleError,
)
from tests.kit.politeness import Observation, RobotsCopy
from tests.kit.records import SchemaValidator
from tests.kit.requests import Answer as SiteAnswer
from tests.kit.requests import Link, Page, Skipped
from tests.kit.trials import (
    MOST_READ,
    MOST_STEPS,
    RECORD_BYTES,
    Answer,
    Learnt,
    Question,
    Terms,
    TrialRunner,
    TrialService,
    TrialWanted,
    Tried,
    Wanted,
)
from tests.kit.warned import Warned
from tests.kit.worlds.memory import RULE, make_biz, make_tree

URL = "https://example.org/list"
HTML = b"<title>Nuts</title>"
TERMS = Terms(robots_agent="Crawlfleet")
PAGE = Page(url=URL, status=200, headers={"content-type": "text/html"}, body=HTML)
SPIDER = Spider(executor="list")
BIZ = make_biz(spiders={"rows": SPIDER}, politeness=Politeness())
ROBOTS = {"https://example.org/robots.txt": b"User-agent: *\nDisallow: /secret\n"}


class Spiders:
    """Executors that give what they are told to."""

    def __init__(self, *given):
        self.given = given

    def read(self, spider, page, body, **_):
        for one in self.given:
            if isinstance(one, Exception):
                raise one
            yield one


class Silent:
    """Hosts whose part does not answer when it is told something."""

    def __init__(self, hosts):
        self._hosts = hosts

    def reserve(self, asks, worker):
        return self._hosts.reserve(asks, worker)

    def report(self, reports, worker):
        raise StoreUnavailableError("redis", "no answer")


class Fleet:
    """A router and the function it asks; ``fetcher`` has the sites, ``hosts`` the turns."""

    def __init__(self, biz=BIZ, hosts=None, spiders=(), answers=()):
        self.tree = make_tree(biz)
        if hosts is not None:
            stage = msgspec.structs.replace(self.tree.stage, hosts=hosts)
            self.tree = msgspec.structs.replace(self.tree, stage=stage)
        self.fetcher = MemoryFetcher({**ROBOTS, URL: PAGE, **dict(answers)})
        self.hosts = MemoryHosts()
        self.robots = MemoryRobotsCache()
        self.warned = Warned()
        self.runner = TrialRunner(
            fetcher=self.fetcher,
            reader=MemoryPageReader(None, Spiders(*spiders)),
            validator=SchemaValidator(),
            clock=lambda: datetime.now(UTC),
        )
        self.trials = MemoryTrials(self.answer)
        self.secrets = {}

    def answer(self, question):
        runner = replace(
            self.runner,
            secrets=SecretTexts(lambda _, name: question.confidential.texts[name]),
        )
        return asyncio.run(runner.answer(question))

    @property
    def service(self):
        return TrialService(
            trials=self.trials,
            hosts=self.hosts,
            robots=self.robots,
            read_secret=lambda name: self.secrets[name],
            read_tenant_secret=lambda tenant, name: self.secrets[tenant, name],
            stores=StorePlaces,
        )

    def try_rule(self, rule="page", *, tenant="default", biz="docs", **wanted):
        if "url" not in wanted:
            wanted.setdefault("page", PAGE)
        asked = TrialWanted(rule=rule, **wanted)
        return self.service.try_rule(self.tree, tenant, biz, asked)

    @property
    def asked(self):
        return [body.url for body in self.fetcher.asked]


# ---- what is asked -------------------------------------------------------------------------------


def test_a_rule_is_found_by_its_name_and_goes_along():
    fleet = Fleet()

    found = fleet.try_rule("page", depth=3)

    assert (found.records, found.version) == (({"title": "Nuts"},), RULE.version)
    [asked] = fleet.trials.asked
    assert (asked.tenant, asked.biz, asked.name, asked.rule) == ("default", "docs", "page", RULE)
    assert (asked.page, asked.url, asked.depth) == (PAGE, None, 3)


def test_what_the_tenant_does_not_have_is_asked_of_nobody():
    fleet = Fleet()

    with pytest.raises(UnknownBizError, match="other"):
        fleet.try_rule("page", biz="other")
    with pytest.raises(UnknownRuleError, match=r"'pgae' .* page, rows"):
        fleet.try_rule("pgae")
    assert fleet.trials.asked == []


def test_urls_that_nobody_can_ask_for_are_named():
    fleet = Fleet()
    page = msgspec.structs.replace(PAGE, url="https://me:pw@example.org/")

    for wanted, field in (({"url": "ftp://x/"}, "url"), ({"page": page}, "page.url")):
        with pytest.raises(InvalidRequestError) as caught:
            fleet.try_rule(**wanted)
        assert [problem.field for problem in caught.value.problems] == [field]
    assert fleet.trials.asked == []


def test_every_error_of_a_rule_is_reported_below_it_and_its_page_is_not_fetched():
    fleet = Fleet()
    rule = Rule(
        fields={"a": Field(css="["), "b": Field(css="b", xpath="//b")},
        follow=(Follow(css="a", rule="pgae"),),
    )

    with pytest.raises(InvalidRequestError) as caught:
        fleet.try_rule(rule, url=URL)

    fields = [problem.field for problem in caught.value.problems]
    assert "rule.fields.a.css" in fields
    assert "rule.follow[0].rule" in fields
    assert any(field.startswith("rule.fields.b") for field in fields)
    assert fleet.asked == []


def test_a_rule_that_is_nested_too_deeply_is_not_compiled():
    field = Field(css="b")
    for _ in range(40):
        field = Field(css="b", fields={"a": field})
    checked = []
    fleet = Fleet()
    reader = MemoryPageReader(None, None, check=lambda rule: checked.append(rule) or [])
    fleet.runner = replace(fleet.runner, reader=reader)

    with pytest.raises(InvalidRequestError, match="deep"):
        fleet.try_rule(Rule(fields={"a": field}))

    assert checked == []


@pytest.mark.parametrize(
    "question",
    [
        Question(tenant="default", biz="docs", terms=TERMS, rule=RULE),
        Question(tenant="default", biz="docs", terms=TERMS, page=PAGE),
        Question(tenant="default", biz="docs", terms=TERMS, rule=RULE, page=PAGE, url=URL),
    ],
    ids=["no page", "no reader", "two pages"],
)
def test_a_question_that_is_not_whole_is_refused(question):
    with pytest.raises(InvalidRequestError, match="trial: "):
        Fleet().answer(question)


# ---- fetching ------------------------------------------------------------------------------------


def test_a_url_is_fetched_after_its_robots_txt_with_a_slot_each():
    fleet = Fleet(hosts=HostLimits(per_second=20, concurrency=1))

    found = fleet.try_rule(url=URL)

    assert fleet.asked == ["https://example.org/robots.txt", URL]
    assert (found.seen.url, found.seen.status, found.seen.bytes) == (URL, 200, len(HTML))
    assert found.records == ({"title": "Nuts"},)
    [state] = fleet.hosts.states(["example.org"])
    assert (state.tenants, state.overload) == (("default",), 0)


def test_a_redirect_is_reported_and_every_hop_is_asked_for():
    moved = Page(url=URL, status=200, headers={}, body=HTML, redirects=("https://a.example/",))
    fleet = Fleet(answers={"https://a.example/": moved}.items())

    found = fleet.try_rule(url="https://a.example/")

    assert found.seen.redirects == ("https://a.example/",)
    assert fleet.asked[:2] == ["https://a.example/robots.txt", "https://example.org/robots.txt"]


def test_what_robots_txt_denies_is_not_fetched():
    fleet = Fleet()

    found = fleet.try_rule(url="https://example.org/secret")

    assert found.failure.reason == "RobotsDenied"
    assert found.failure.retryable is False
    assert found.seen is None
    assert fleet.asked == ["https://example.org/robots.txt"]


def test_a_host_without_a_slot_soon_is_reported_with_the_wait_and_not_as_overloaded():
    fleet = Fleet(hosts=HostLimits(per_second=0.01))

    found = fleet.try_rule(url=URL)

    failure = found.failure
    assert (failure.reason, failure.status, failure.retryable) == ("Throttled", 0, True)
    assert 90 < failure.retry_after_seconds <= 100
    assert failure.message.startswith("example.org has no free slot")
    assert fleet.asked == ["https://example.org/robots.txt"]
    assert fleet.hosts.states(["example.org"], {"example.org": "default"})[0].overload == 0


def test_a_slot_that_comes_soon_is_waited_for():
    fleet = Fleet(hosts=HostLimits(per_second=4))

    assert fleet.try_rule(url=URL).records == ({"title": "Nuts"},)


def test_a_site_that_asks_for_fewer_requests_is_believed():
    answer = SiteAnswer.of(URL, 429, {"content-type": "text/html"}, 0.2)
    error = ThrottledError("answered 429", retry_after_seconds=30, answer=answer)
    fleet = Fleet(answers={URL: error}.items())

    first = fleet.try_rule(url=URL)
    second = fleet.try_rule(url=URL)

    assert (first.failure.status, first.failure.retry_after_seconds) == (429, 30)
    assert (first.seen.status, first.seen.content_type) == (429, "text/html")
    assert "fewer requests" in second.failure.message
    assert fleet.asked.count(URL) == 1


def test_what_takes_too_long_is_given_up():
    fleet = Fleet()
    fetch, ask = fleet.fetcher.fetch, fleet.trials.ask

    async def slow(body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
        if body.url == URL:
            await hop_guard(body.url)
            await asyncio.Event().wait()
        return await fetch(body, limits, hop_guard, fetch_context)

    fleet.fetcher.fetch = slow
    fleet.trials.ask = lambda asked: ask(msgspec.structs.replace(asked, fetch_seconds=0.2))

    found = fleet.try_rule(url=URL)

    assert (found.failure.reason, found.failure.retryable) == ("FetchTimeout", True)
    assert "20 seconds" in found.failure.message
    assert fleet.hosts.states(["example.org"], {"example.org": "default"})[0].overload == 1


def test_what_cannot_be_reported_of_a_host_costs_nobody_the_answer():
    fleet = Fleet()
    fleet.hosts = Silent(fleet.hosts)

    assert fleet.try_rule(url=URL).records == ({"title": "Nuts"},)
    assert len(fleet.warned.texts) == 1


# ---- between router and function -----------------------------------------------------------------


def test_a_trial_takes_a_step_for_each_thing_it_lacks_and_sends_one_request_a_slot():
    moved = Page(url=URL, status=200, headers={}, body=HTML, redirects=("https://a.example/",))
    fleet = Fleet(answers={"https://a.example/": moved}.items())

    assert fleet.try_rule(url="https://a.example/").records == ({"title": "Nuts"},)

    said = [(one.with_slot, one.origin, one.robots is not None) for one in fleet.trials.asked]
    assert said == [
        (False, "https://a.example", False),  # the rule is checked; robots.txt needs a slot
        (True, "https://a.example", False),
        (True, "https://a.example", True),  # the page, which leads elsewhere
        (True, "https://example.org", False),
        (True, "https://example.org", True),
    ]
    assert [one.url for one in fleet.trials.asked] == ["https://a.example/"] * 5


def test_a_robots_txt_that_the_fleet_has_is_not_asked_for_and_one_that_is_fetched_is_kept():
    fleet = Fleet()

    fleet.try_rule(url=URL)
    fleet.try_rule(url=URL)

    assert fleet.asked == ["https://example.org/robots.txt", URL, URL]
    assert fleet.robots.load("https://example.org").text == ROBOTS["https://example.org/robots.txt"]


def test_a_site_whose_address_is_refused_is_asked_for_once():
    refused = AddressRefusedError("a private address")
    answers = {"https://example.org/robots.txt": refused, URL: refused}
    fleet = Fleet(answers=answers.items())

    found = fleet.try_rule(url=URL)

    assert found.failure.reason == "AddressRefused"
    assert fleet.asked == ["https://example.org/robots.txt", URL]
    assert fleet.robots.load("https://example.org") is None


SECRETIVE = make_biz(
    spiders={"rows": Spider(executor="list", parameters={"login": {"secret": "login"}})},
    fetch=FetchLimits(headers={"Authorization": Secret(secret="api")}, proxies="pool"),
    politeness=Politeness(),
)


def with_proxies(fleet):
    stage = msgspec.structs.replace(fleet.tree.stage, proxies={"pool": ProxyPool(secret="list")})
    fleet.tree = msgspec.structs.replace(fleet.tree, stage=stage)
    return fleet


def test_a_question_has_the_secrets_that_its_own_trial_needs_and_one_proxy():
    fleet = with_proxies(Fleet(SECRETIVE))
    fleet.secrets = {
        ("default", "api"): "Bearer x",
        ("default", "login"): "hunter2",
        ("default", "another"): "not for this",
        "list": "# ours\nhttp://u:p@one.example:3128\nnonsense\nhttp://u:p@two.example:3128\n",
    }

    fleet.try_rule("page", url=URL)
    fleet.try_rule("rows", page=PAGE)
    fleet.try_rule("page", page=PAGE)

    *fetched, spider, rule = [one.confidential for one in fleet.trials.asked]
    assert all(one.texts == {"api": "Bearer x"} for one in fetched)
    assert {one.proxy.partition("@")[2] for one in fetched} <= {
        "one.example:3128",
        "two.example:3128",
    }
    assert len({one.proxy for one in fetched}) == 1
    assert (spider.texts, spider.proxy) == ({"login": "hunter2"}, "")
    assert (rule.texts, rule.proxy) == ({}, "")
    assert "hunter2" not in repr(fleet.trials.asked)


@pytest.mark.parametrize(
    ("secrets", "reason", "said"),
    [
        ({"list": "http://one.example:1"}, "NoSecret", "secret 'api' of tenant 'default'"),
        ({("default", "api"): "x"}, "NoProxy", "the secret 'list' cannot be read: KeyError"),
    ],
)
def test_a_secret_that_cannot_be_read_is_reported_and_no_site_is_asked(secrets, reason, said):
    fleet = with_proxies(Fleet(SECRETIVE))
    fleet.secrets = secrets

    found = fleet.try_rule(url=URL)

    assert (found.failure.reason, found.failure.retryable) == (reason, True)
    assert said in found.failure.message
    assert fleet.trials.asked == []


OTHERS = "https://victim.example"


def lying(answer):
    """A function that has been taken over, from its second step on."""
    fleet = Fleet()
    honest = fleet.trials.ask

    def ask(question):
        honest(question)
        return answer if question.with_slot else honest(question)

    fleet.trials.ask = ask
    return fleet


def test_what_a_function_says_of_hosts_that_it_was_not_let_ask_is_not_believed():
    copy = RobotsCopy(status=200, text=b"User-agent: *\nDisallow: /\n", fetched_ms=1)
    blame = Observation(origin=OTHERS, overloaded=True, retry_after_seconds=3_600)
    fleet = lying(
        Answer(
            tried=Tried(version="v"),
            learnt=Learnt(origin=OTHERS, copy=copy, seconds=86_400),
            seen=(blame,),
        )
    )

    assert fleet.try_rule(url=URL) == Tried(version="v")

    [state] = fleet.hosts.states(["victim.example"])
    assert (state.overload, state.back_off_until, state.failed) == (0, None, 0)
    assert fleet.robots.load(OTHERS) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(), "no trial's"),
        (Answer(wanted=Wanted(origin="file:///etc/passwd")), "asks for an origin that"),
        (Answer(wanted=Wanted(origin="https://example.org")), "without an end"),
    ],
    ids=["nothing", "no origin", "endless"],
)
def test_a_function_that_makes_no_sense_is_an_unavailable_part_and_holds_no_slot(answer, said):
    fleet, told = lying(answer), []
    report = fleet.hosts.report
    fleet.hosts.report = lambda reports, who: told.extend(reports) or report(reports, who)

    with pytest.raises(StoreUnavailableError, match=said):
        fleet.try_rule(url=URL)

    assert [(one.host, one.running, one.answered) for one in told] == [("example.org", 0, 0)]
    assert len(fleet.trials.asked) <= 2 * MOST_STEPS


def test_a_trial_that_has_used_up_its_time_asks_for_no_further_step():
    fleet, now = Fleet(), [0.0]
    ask = fleet.trials.ask

    def slow(question):
        now[0] += 12.0
        return ask(question)

    fleet.trials.ask = slow
    service = replace(fleet.service, clock=lambda: now[0])

    found = service.try_rule(fleet.tree, "default", "docs", TrialWanted(rule="page", url=URL))

    assert (found.failure.reason, found.failure.retryable) == ("FetchTimeout", True)
    first, second = fleet.trials.asked
    assert (first.seconds, first.fetch_seconds) == (26.0, 20.0)
    assert (second.seconds, second.fetch_seconds) == (14.0, 8.0)


# ---- reading -------------------------------------------------------------------------------------


def test_what_a_page_lacks_is_a_problem_and_no_error():
    found = Fleet().try_rule(Rule(fields={"n": Field(css="title", type="integer")}))

    assert [problem.field for problem in found.problems] == ["n"]
    assert "'Nuts'" in found.problems[0].message
    assert found.records == ()


def test_records_that_would_not_be_stored_are_reported():
    rule = Rule(fields={"n": Field(css="b")}, key=("n",))

    found = Fleet().try_rule(rule)

    assert (found.records, found.rejected_count) == ((), 1)
    [said] = found.rejected
    assert said.startswith("record 0, n: ")
    assert found.coverage.records == 1


def test_a_spider_is_tried_by_its_name():
    link = Link(url="https://example.org/2", meta={"n": float("nan")})
    given = ({"a": "x", "b": None}, link, Skipped("line 2", "no row"), {"a": "y"})
    fleet = Fleet(spiders=given)

    found = fleet.try_rule("rows")

    assert found.records == ({"a": "x", "b": None}, {"a": "y"})
    assert found.links == (Link(url="https://example.org/2", meta={"n": None}),)
    assert (found.refused, found.coverage.fields) == ({}, {"a": 2})
    assert (found.left_out, found.left_out_count) == (("line 2: no row",), 1)
    assert (found.version, found.unread) == (SPIDER.version, False)


def test_a_spider_that_cannot_read_on_gives_nothing():
    found = Fleet(spiders=({"a": 1}, ExtractError("page", "is no list"))).try_rule("rows")

    assert (found.problems, found.records) == ((Problem("page", "is no list"),), ())


def test_a_spider_that_goes_on_and_on_is_stopped():
    found = Fleet(spiders=[Skipped("line 1", "is none")] * (MOST_READ + 1)).try_rule("rows")

    assert (found.left_out_count, found.unread) == (MOST_READ, True)


def test_an_answer_shows_the_first_ones_and_counts_all():
    links = [Link(url=f"https://example.org/{n}") for n in range(1_200)]
    links.append(Link(url="https://example.org/", meta={"deep": object()}))
    records = [{"text": "x" * (RECORD_BYTES // 2)} for _ in range(5)]

    found = Fleet(spiders=[*records, *links]).try_rule("rows")

    assert (len(found.records), found.record_count) == (1, 5)
    assert (len(found.links), found.link_count) == (1_000, 1_200)
