"""Tests of each handler's imports, which a cold start pays for, against complete lists.

Where a function imports something new before its first call, either an import inside the function
that uses it will do, or the list is renewed in the same commit, for people to read:
``python -m tests.functions.apps.test_imports router``, in the checkout, writes it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.fleet import FLEET
from infra.streams import StreamReaders, with_streams
from tests.functions.imports import imported_by, read, written

#: Of all functions, that of streams among them, which not every stage has; two have one code.
PACKAGES = sorted({spec.package for spec in with_streams(FLEET, StreamReaders()).functions})
EACH_FUNCTION = pytest.mark.parametrize("package", PACKAGES)
#: What no handler pays for before somebody asks for it: the SDK of AWS, parsers, Scrapy, zones.
HEAVY = {"boto3", "lxml", "selectolax", "bs4", "re2", "extruct", "resiliparse", "feedparser"} | {
    *("jsonpath", "jsonschema_rs", "requests", "scrapy", "twisted", "tzdata", "publicsuffixlist")
}


def listed(package: str) -> Path:
    return Path(__file__).with_name(f"imports_{package}.txt")


@EACH_FUNCTION
def test_a_handler_imports_what_is_listed_and_nothing_else(package: str):
    expected, found = read(listed(package).read_text()), imported_by(package)

    new, gone = written(found - expected), written(expected - found)
    assert (new, gone) == ("", ""), (
        f"{package} imports, and did not before:\n{new or '(nothing)'}\n"
        f"and no longer imports:\n{gone or '(nothing)'}\n"
        f"If that is meant: python -m tests.functions.apps.test_imports {package}"
    )


def test_the_process_that_pages_are_read_in_loads_no_event_loop_no_driver_and_no_network():
    """It starts with each worker, and what it has loaded is what a page could lay hands on."""
    unwanted = {"asyncio", "ssl", "http.client", "redis", "pymongo", "boto3", "aiohttp"}
    program = f"import sys, crawlfleet.apps.page_reader; print(*{unwanted!r} & set(sys.modules))"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.split() == []


@pytest.mark.parametrize(("package", "most"), [("id_issuer", 40), ("router", 111)])
def test_a_cold_start_that_callers_wait_for_takes_few_modules_of_ours(package: str, most: int):
    """A block of ids takes no more; a submission takes seven more, as it reaches the id-issuer."""
    own = {name for name in read(listed(package).read_text()) if name.startswith("crawlfleet")}

    assert len(own) <= most


def test_what_tries_rules_loads_no_driver_of_a_store_and_nothing_that_knows_one():
    found = read(listed("trials").read_text())

    assert found & {"redis", "pymongo", "bson", "boto3"} == set()
    rooms = {module.rpartition(".")[2] for module in found if module.startswith("crawlfleet")}
    assert rooms & {"redis", "mongo"} == set()


@EACH_FUNCTION
def test_no_handler_imports_what_only_some_calls_need(package: str):
    assert read(listed(package).read_text()) & HEAVY == set()


def test_a_list_says_what_it_was_written_from():
    modules = {"crawlfleet", "crawlfleet.a", "crawlfleet.a.b", "crawlfleet.c", "redis", "yarl"}
    modules |= {f"crawlfleet.a.module_{number}" for number in range(30)}

    text = written(modules)

    assert read(text) == modules
    assert max(map(len, text.splitlines())) <= 98
    assert text.startswith("crawlfleet: a c\ncrawlfleet.a: b module_0 ")
    assert text.endswith("\nothers: redis yarl\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or PACKAGES:
        listed(name).write_text(written(imported_by(name)))
