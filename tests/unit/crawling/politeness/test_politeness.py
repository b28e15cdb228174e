"""Politeness limits of a host, and the name of a host."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Biz, HostLimits, Politeness, Stage
from tests.kit.kernel import host_of
from tests.kit.politeness import host_limits, interval_of, limits_for

STAGE = Stage(
    hosts=HostLimits(per_second=10, concurrency=8),
    host_limits={"slow.example": HostLimits(per_second=1, concurrency=2, adaptive=False)},
)


def biz(**said) -> Biz:
    return Biz(generations=(), politeness=Politeness(**said))


def test_a_host_of_its_own_has_its_own_limits_and_its_subdomains_have_not():
    assert limits_for(STAGE, biz(), "slow.example").per_second == 1
    assert limits_for(STAGE, biz(), "www.slow.example").per_second == 10
    assert host_limits(STAGE, "slow.example").adaptive is False


@given(
    per_second=st.none() | st.floats(0.001, 1_000),
    concurrency=st.none() | st.integers(1, 100),
    host=st.sampled_from(["slow.example", "other.example"]),
)
def test_a_biz_can_only_be_more_polite_than_its_stage(per_second, concurrency, host):
    found = limits_for(STAGE, biz(per_second=per_second, concurrency=concurrency), host)
    stage = host_limits(STAGE, host)

    assert found.per_second == min(stage.per_second, per_second or stage.per_second)
    assert found.concurrency == min(stage.concurrency, concurrency or stage.concurrency)
    assert found.backoff_seconds == stage.backoff_seconds


@pytest.mark.parametrize(
    ("delay", "expected"), [(None, 0.1), (0, 0.1), (0.05, 0.1), (5, 5.0), (1e9, 60.0)]
)
def test_a_crawl_delay_counts_where_it_is_longer_up_to_its_cap(delay, expected):
    assert interval_of(HostLimits(per_second=10), delay) == expected


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Example.ORG", "example.org"),
        ("https://example.org.:8443/a:b@c", "example.org"),
        ("https://user:pass@example.org/", "example.org"),
        ("http://example.org?x=http://other.example/", "example.org"),
        ("http://example.org\\@other.example/", "example.org"),
        ("http://ex%61mple.org/", "example.org"),
        ("http://a_b.example/", "a_b.example"),
        ("http://127.0.0.1:80/", "127.0.0.1"),
        ("http://[::1]/", "[::1]"),
        ("http://[0:0:0:0:0:0:0:1]:8080/", "[::1]"),
        ("http://[::FFFF:1.2.3.4]/", "[::ffff:102:304]"),
        ("http://Bücher.example/", "xn--bcher-kva.example"),
        ("http://日本語.example/", "xn--wgv71a119e.example"),
        ("http://Faß.example/", "xn--fa-hia.example"),
        ("/relative", ""),
        ("", ""),
    ],
)
def test_a_host_has_one_name(url, host):
    assert host_of(url) in {host, host.replace("::ffff:102:304", "::ffff:1.2.3.4")}


@given(st.text(max_size=400))
def test_whatever_stands_there_is_good_as_a_key(text):
    found = host_of(f"http://{text}/")

    assert len(found) <= 260
    assert re.fullmatch(r"[\x21-\x7e]*", found)
    assert "{" not in found
    assert "}" not in found
