"""A real Scrapy project over a real Redis: complete, shared, paused, killed, resumed."""

import random
from collections import Counter

import pytest

from tests.scrapy_project.crawls import Crawls, crawls
from tests.scrapy_project.site import PAGES, LinkedSite
from tests.waiting import eventually

ALL = set(range(PAGES))


@pytest.fixture
def project(redis_connection, redis_url, tenant, tmp_path):
    with crawls(redis_connection, redis_url, tenant, tmp_path) as made:
        yield made


def test_a_crawl_is_complete_and_forgotten_at_its_end(project: Crawls):
    with LinkedSite() as site:
        log = project.run("pages", "-a", f"site={site.url}/0")
        hits = site.hits

    items = project.items()
    assert {item.fields["page"] for item in items} == ALL, log[-3000:]
    assert max(Counter(item.fields["page"] for item in items).values()) <= 2
    assert {item.rule for item in items} == {"pages"}
    assert all(item.url == item.fields["url"] for item in items)
    # Of the front page there is one more: its own request is not filtered, as everywhere in Scrapy.
    assert hits["/0"] == 2
    assert "'dupefilter/filtered'" in log
    assert project.left() == ["serial"]
