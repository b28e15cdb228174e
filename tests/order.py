"""In which order processes that share the tests take files."""

from typing import Final

#: Files that take a minute or more, as they are to be begun. Chaos first: it is the longest test,
#: and the kinds of harm beside it wait more than they work. None of these is to be left for the
#: end, where the other process has nothing to do any more.
LONGEST: Final = (
    "tests/journeys/test_chaos.py",
    "tests/journeys/test_chaos_kinds.py",
    "tests/journeys/test_two_networks.py",
    "tests/functions/test_api_document.py",
    "tests/benchmarks/test_quick_run.py",
    "tests/contract/test_scrapy_crawl.py",
    "tests/infra_local/test_cloud.py",
    "tests/contract/test_queue_machine.py",
    "tests/contract/test_ledger_machine.py",
)


def place(nodeid: str) -> int:
    """Where the file of a test comes: that of its name, or behind all that have one.

    >>> place("tests/journeys/test_chaos.py::test_nothing_is_lost"), place("tests/unit/test_a.py")
    (0, 9)
    """
    file = nodeid.partition("::")[0]
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)
