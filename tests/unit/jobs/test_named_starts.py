"""Jobs that name no pages: they begin where the parameters of an executor's spider say."""

import pytest
from msgspec.structs import replace

from tests.kit.config import Spider
from tests.kit.jobs import JobOrder
from tests.kit.kernel import InvalidRequestError
from tests.kit.spiders import SpiderPlan, Start
from tests.kit.worlds.memory import DOCS, make_biz, make_tree
from tests.kit.worlds.schedules import Clocked, schedule

LIST = {"items": {"css": "li"}, "fields": {"name": {"css": "b"}}}
FIRST = "https://shop.example/tools?page=1"
LISTING = Spider(executor="paginated_list", parameters=LIST | {"start_url": FIRST})
DOCS_NAME = (DOCS.tenant, DOCS.biz)
NO_START = Spider(executor="paginated_list", parameters=LIST)
UNKNOWN = Spider(executor="nobodys")


@pytest.fixture
def clocked() -> Clocked:
    spiders = {"listing": LISTING, "endless": NO_START, "unknown": UNKNOWN}
    return Clocked(tree=make_tree(replace(make_biz(), spiders=spiders)))


def start(clocked: Clocked, **changes: object):
    facts = {"tenant": DOCS.tenant, "biz": DOCS.biz, "by": "api", "name": "june"}
    return clocked.firing.starter.start(clocked.tree, JobOrder(**(facts | changes)), clocked.now)


def refusal(clocked: Clocked, **changes: object) -> str:
    with pytest.raises(InvalidRequestError) as refused:
        start(clocked, **changes)
    [problem] = refused.value.problems
    return str(problem)


def test_the_start_url_of_a_list_starts_a_job_that_names_no_urls(clocked):
    job = start(clocked, rule="listing")

    assert (job.start, job.size) == (Start(urls=(FIRST,)), 1)


def test_urls_that_are_named_come_before_the_start_url(clocked):
    mine = Start(urls=("https://shop.example/tools?page=7",))

    assert start(clocked, rule="listing", start=mine).start == mine


def test_a_kept_spider_without_a_start_begins_where_the_configuration_says_when_it_is_run(clocked):
    clocked.spiders.put(*DOCS_NAME, "nightly", SpiderPlan(rule="listing"), clocked.now)
    moved = Spider(executor="paginated_list", parameters=LIST | {"start_url": FIRST + "1"})
    first = start(clocked, spider="nightly")
    clocked.tree = make_tree(replace(make_biz(), spiders={"listing": moved}))

    job = start(clocked, spider="nightly", name="july")

    assert [first.start.urls, job.start.urls] == [(FIRST,), (FIRST + "1",)]


def test_a_schedule_of_a_rule_alone_fires_a_job_of_its_start_url(clocked):
    kept = clocked.planning.put(clocked.tree, schedule(rule="listing", urls=()), clocked.now)

    job = clocked.firing.run_now(clocked.tree, kept, None, clocked.now)

    assert job.start.urls == (FIRST,)


def test_a_rule_that_names_no_urls_still_wants_some(clocked):
    assert "the rule names no URLs to begin with" in refusal(clocked, rule="endless")
    assert "the rule names no URLs to begin with" in refusal(clocked, rule="page")
    with pytest.raises(InvalidRequestError, match="urls: are missing"):
        clocked.planning.put(clocked.tree, schedule(rule="endless", urls=()), clocked.now)


def test_an_executor_that_is_not_here_is_named_with_the_rule(clocked):
    said = refusal(clocked, rule="unknown")

    assert said.startswith("rule: its executor cannot say where it begins: ")
    assert "'nobodys' is no executor here" in said
    with pytest.raises(InvalidRequestError, match="'nobodys' is no executor here"):
        clocked.planning.put(clocked.tree, schedule(rule="unknown", urls=()), clocked.now)
