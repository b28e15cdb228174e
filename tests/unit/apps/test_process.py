"""Memory settings of a worker's process, which cannot be undone: each test has a process."""

import platform
import subprocess
import sys
from typing import Final

from tests.kit.apps import LOOKS
from tests.kit.kernel import names

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
_KEEPING: Final = "from crawlfleet.apps.process import keep_memory; keep_memory()"


_ELSEWHERE: Final = f"import ctypes; ctypes.CDLL = lambda _: object(); {_KEEPING}"


def _said(code: str, **environment: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [int(word) for word in done.stdout.split()]


def _reported(before: str) -> list[int]:
    return _said(_READS.format(before=before))


def test_a_process_that_keeps_its_memory_does_not_ask_for_it_again_with_each_page() -> None:
    as_it_comes, _ = _reported("")
    kept, _ = _reported(_KEEPING)

    # Other C libraries than glibc keep what they keep.
    most = as_it_comes / 10 if platform.libc_ver()[0] == "glibc" else as_it_comes * 2
    assert kept < most


def test_where_the_c_library_is_another_one_its_memory_stays_as_it_is() -> None:
    as_it_comes, _ = _reported("")
    stays, frozen = _reported(_ELSEWHERE)

    assert stays > as_it_comes / 2
    assert frozen > 1_000


def test_what_was_imported_is_not_looked_through_for_rubbish_again() -> None:
    assert _reported(_KEEPING)[1] > 1_000


def test_the_consumer_of_an_environment_keeps_its_memory() -> None:
    settings = {
        names.ENV_STAGE: "test",
        names.ENV_REDIS_URL: "redis://127.0.0.1:1",
        names.ENV_NODE_SECRET: "nodes/{node}",
        names.ENV_CONSUMER_FUNCTION: "consumer",
        names.ENV_ID_ISSUER_FUNCTION: "id-issuer",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    made = "from crawlfleet.apps.consumer import consumer; consumer()"

    *looks, frozen = _said(
        f"import gc; {made}; print(*gc.get_threshold(), gc.get_freeze_count())", **settings
    )

    assert tuple(looks) == LOOKS
    assert frozen > 10_000
