"""The hostile tenant of the benchmark: what it does, and with which pages."""

import itertools

import pytest

from benchmarks.isolation import ALL, VICTIM, Kept, Pair, tree_of, ways
from benchmarks.isolation_site import LINKS, links_of, page_of
from benchmarks.isolation_ways import OTHER, WAYS, Scene
from benchmarks.scale import FULL, QUICK


def test_a_full_run_measures_eleven_ways_and_all_of_them_and_a_quick_one_all_at_once():
    assert len(WAYS) == 11
    assert ways(FULL) == (ALL, *WAYS)
    assert ways(QUICK) == (ALL,)


def test_both_tenants_have_one_share_however_many_bizs_the_hostile_one_has():
    tree = tree_of(20)

    assert tree.tenants[VICTIM] == tree.tenants[OTHER]
    assert len(tree.bizs[OTHER]) == 20


def test_hosts_that_are_made_up_are_all_this_machines_own_and_differ():
    scene = Scene(None, tree_of(1), "8000", 1.0, itertools.count())

    urls = scene.hosts("plain", 5_000, "127.200")

    assert len({url.split("/")[2] for url in urls}) == 5_000
    assert all(url.startswith("http://127.200.") for url in urls)


def test_pages_with_links_lead_to_pages_that_no_other_leads_to():
    first, second = links_of(b"/links/1"), links_of(b"/links/2")

    assert first.count(b"<a href=") == second.count(b"<a href=") == LINKS
    assert b'/plain/1-7"' in first
    assert b'/plain/1-7"' not in second


@pytest.mark.parametrize(
    ("kind", "status"),
    [(b"records", b"200 OK"), (b"gone", b"404 Not Found"), (b"busy", b"503 Service Unavailable")],
)
def test_pages_say_how_long_they_are(kind, status):
    head, _, body = page_of(kind).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 " + status)
    assert f"Content-Length: {len(body)}".encode() in head


def kept(per_second=10.0, p95_seconds=1.0, unserved=0):
    return Kept(
        per_second=per_second, p95_seconds=p95_seconds, asked=20, unserved=unserved, others={}
    )


def test_a_pair_tells_its_share_and_waits_and_what_was_never_served():
    pair = Pair(fair=kept(), kept=kept(9.0, 1.5))
    assert (pair.share, pair.wait_ratio) == (0.9, 1.5)
    assert "unserved" not in str(pair)

    assert str(Pair(fair=kept(), kept=kept(9.0, 8.0, 3))).endswith(", 3 of 20 unserved")


def test_of_what_is_done_at_first_a_wave_brings_a_part():
    scene = Scene(None, tree_of(1), "8000", 1.0, wave=0.02)

    assert scene.many(1_000) == 20
    assert scene.many(1) == 1
