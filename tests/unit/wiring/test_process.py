"""What a worker's process does with its memory, in processes of their own: it cannot be undone."""

import subprocess
import sys
from typing import Final

import pytest

#: Reads pages as a worker does, and tells the page faults of all but the first ones.
_READS: Final = """
import gc, resource
{before}
from selectolax.lexbor import LexborHTMLParser
page = b"<p class=a>text <a href=x>link</a></p>" * 3_000
def read(times):
    for _ in range(times):
        assert len(LexborHTMLParser(page).css("a[href]")) == 3_000
read(20)
began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
read(100)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - began, gc.get_freeze_count())
"""
_KEEPING: Final = "from crawlfleet.wiring.process import keep_memory; keep_memory()"


def _told(before: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _READS.format(before=before)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    faults, frozen = done.stdout.split()
    return int(faults), int(frozen)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is meant")
def test_a_process_that_keeps_its_memory_does_not_ask_for_it_again_with_each_page() -> None:
    as_it_comes, _ = _told("")
    kept, _ = _told(_KEEPING)

    assert kept < as_it_comes / 10


def test_what_was_imported_is_not_looked_through_for_rubbish_again() -> None:
    assert _told(_KEEPING)[1] > 1_000


def test_where_the_c_library_is_another_one_its_memory_stays_as_it_is() -> None:
    other = f"import ctypes; ctypes.CDLL = lambda _: object(); {_KEEPING}"

    assert _told(other)[1] > 1_000
