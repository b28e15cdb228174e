"""The sample: a Scrapy project that Scrapy finds its spider in, and a biz whose worker runs it."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.cli import read_folder
from tests.kit.config import adopt, unchecked
from tests.kit.executors import Registry, SpiderExecutors
from tests.kit.extract import RuleExtractor
from tests.kit.requests import Body, Link, Page

SAMPLES = Path(__file__).parents[3] / "samplesconfig"
PROJECT = SAMPLES / "scrapy" / "project"
PAGES = SAMPLES / "executors" / "pages"
LAYER = SAMPLES.parent / "layers/crawlfleet/python"


def scrapy(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=PROJECT,
        env={"PYTHONPATH": str(LAYER), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def shipped(monkeypatch):
    """The project's package, as the consumer carries it."""
    monkeypatch.syspath_prepend(str(PROJECT))
    yield
    for name in ("spiders", "spiders.tools"):
        sys.modules.pop(name, None)


def test_scrapy_finds_the_spider():
    assert scrapy("list").stdout == "tools\n"


def test_without_a_redis_it_says_what_is_missing():
    reported = scrapy("crawl", "tools")

    assert "CRAWLFLEET_REDIS_URL: must be the address of the fleet's Redis" in reported.stderr


@pytest.mark.usefixtures("shipped")
def test_a_worker_reads_the_list_by_the_same_spider_page_after_page():
    tree = adopt("r", read_folder(SAMPLES / "scrapy"), None, {}, unchecked).tree
    spider = tree.bizs["default"]["garden"].spiders["tools"]
    executors = SpiderExecutors(Registry(installed=False), RuleExtractor())
    link = Link(url="https://garden.example/tools", rule="tools")
    records = []
    for number in (1, 2, 3):
        content = (PAGES / f"list-{number}.html").read_bytes()
        page = Page(url=link.url, status=200, headers={}, body=content)
        body = Body(url=link.url, rule="tools", rule_version="v", meta=link.meta, depth=link.depth)
        found = list(executors.read(spider, page, body))
        records += [each for each in found if not isinstance(each, Link)]
        link = next((each for each in found if isinstance(each, Link)), None)

    assert link is None
    assert records[0] == {
        "sku": "SP-1",
        "name": "Spade, forged",
        "price": "34.90",
        "currency": "EUR",
        "page": 1,
    }
    assert [(record["page"], record["sku"]) for record in records] == [
        (1, "SP-1"),
        (1, "RK-2"),
        (2, "SH-3"),
        (2, "HS-4"),
        (3, "WB-5"),
    ]


@pytest.mark.usefixtures("shipped")
def test_what_the_sample_says_of_a_spider_holds_for_what_it_does(monkeypatch):
    tree = adopt("r", read_folder(SAMPLES / "scrapy"), None, {}, unchecked).tree
    biz = tree.bizs["default"]["garden"]
    monkeypatch.syspath_prepend(str(PROJECT))
    settings = importlib.import_module("settings")
    try:
        assert settings.CRAWLFLEET_BIZ in tree.bizs[settings.CRAWLFLEET_TENANT]
        assert biz.fetch.user_agent == settings.USER_AGENT
        [(name, spider)] = biz.spiders.items()
        kind = importlib.import_module("spiders.tools").ToolsSpider
        assert (kind.name, spider.parameters["spider"]) == (name, "spiders.tools:ToolsSpider")
    finally:
        sys.modules.pop("settings", None)


@pytest.mark.usefixtures("shipped")
def test_a_link_of_the_sample_off_its_domain_is_not_followed():
    tree = adopt("r", read_folder(SAMPLES / "scrapy"), None, {}, unchecked).tree
    spider = tree.bizs["default"]["garden"].spiders["tools"]
    content = b"<a rel=next href='https://elsewhere.example/tools'>next</a>"
    page = Page(url="https://garden.example/tools", status=200, headers={}, body=content)
    body = Body(url=page.url, rule="tools", rule_version="v")

    executors = SpiderExecutors(Registry(installed=False), RuleExtractor())

    assert list(executors.read(spider, page, body)) == []
