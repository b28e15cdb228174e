"""A Scrapy process that cannot begin, or is told what it does not know, says so in a line."""

import re
from pathlib import Path

import pytest

from tests.kit.scrapy import SETTINGS, settings
from tests.scrapy_project.crawls import Crawls, crawls


@pytest.fixture
def project(redis_connection, redis_url, tenant, tmp_path):
    with crawls(redis_connection, redis_url, tenant, tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("CRAWLFLEET_BATCH=many", "CRAWLFLEET_BATCH: must be a number from 0 to 10000, not 'many'"),
        ("CRAWLFLEET_REDIS_URL=redis://127.0.0.1:1", "redis: ConnectionError: Error 111"),
    ],
)
def test_a_crawl_that_cannot_begin_says_why_in_a_line_and_fails(project: Crawls, setting, said):
    process = project.begin("pages", "-a", "site=http://127.0.0.1:1/0", "-s", setting)

    log = process.end()

    assert process.code == 1
    (line,) = [line for line in log.splitlines() if "the crawl cannot go on" in line]
    assert said in line
    assert "Traceback" not in log


def test_an_unknown_setting_is_reported_with_the_likely_one(project: Crawls):
    log = project.run(
        "pages", "-s", "CRAWLFLEET_BATCHES=5", "-s", "CRAWLFLEET_REDIS_URL=redis://127.0.0.1:1"
    )

    assert "WARNING: CRAWLFLEET_BATCHES is no setting: there are CRAWLFLEET_BATCH, " in log


def test_every_setting_that_is_read_is_known():
    lines = Path(settings.__file__).read_text().splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith(">>>"))
    read = re.findall(r'"(CRAWLFLEET_[A-Z_]+)"', code)

    assert len(set(read)) > 9
    assert set(read) <= set(SETTINGS)
