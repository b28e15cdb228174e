"""Costs: the price table, what a stage says instead, lines."""

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import PriceTerms, Region
from tests.kit.costs import cost_of, prices_of
from tests.kit.jobs import RunFigures

amounts = st.integers(0, 10**12)


def test_what_a_stage_says_it_pays_is_in_the_place_of_the_list() -> None:
    listed = prices_of(PriceTerms(region="eu-central-1", nat="gateway"))
    own = prices_of(PriceTerms(region="eu-central-1", nat="gateway", nat_gb=0.01, gb_second=0))

    assert (listed.nat_gb, listed.region) == (0.052, "eu-central-1")
    assert (own.nat_gb, own.gb_second, own.out_gb) == (0.01, 0, listed.out_gb)


def test_nats_cost_by_how_many_there_are() -> None:
    found = {nat: prices_of(PriceTerms(nat=nat)).nat_gb for nat in ("shared", "zonal", "gateway")}

    assert found == {"shared": 0.01, "zonal": 0.0, "gateway": 0.045}


@pytest.mark.parametrize("region", typing.get_args(Region))
def test_every_region_that_may_be_said_has_prices(region: str) -> None:
    assert prices_of(PriceTerms(region=region)).gb_second > 0


def test_a_region_is_not_made_up_by_the_table() -> None:
    assert prices_of(PriceTerms(region="ap-northeast-1")).out_gb == 0.114
    assert prices_of(PriceTerms()).out_gb == 0.09


def test_each_line_is_of_what_it_is_named_for() -> None:
    prices = prices_of(PriceTerms())

    def lines(**measured: float) -> dict[str, float]:
        found = cost_of(RunFigures(**measured), prices)
        return {line: round(usd, 8) for line, usd in found.lines.items() if usd}

    assert lines(gb_seconds=1_000_000) == {"compute": 13.3334}
    assert lines(workers=1_000_000) == {"calls": 0.2}
    assert lines(bytes=10**9) == {"network": 0.01}
    assert lines(stored_bytes=10**9) == {"storage": 0.24}
    assert lines(proxy_usd=3.5) == {"proxies": 3.5}
    assert set(lines(requests=1_000_000)) == {"network", "stores", "storage"}


def test_pages_that_failed_are_paid_by_those_that_were_read() -> None:
    found = cost_of(RunFigures(gb_seconds=1_000, requests=4, errors=3), prices_of(PriceTerms()))

    assert found.pages == 1
    assert found.per_1000_pages == pytest.approx(1_000 * found.usd)
    assert cost_of(RunFigures(requests=1, errors=1), prices_of(PriceTerms())).per_1000_pages is None


@given(amounts, amounts, st.integers(1, 100))
def test_a_cost_is_in_proportion_to_what_was_measured(
    count: int, requests: int, times: int
) -> None:
    prices = prices_of(PriceTerms())
    once = cost_of(RunFigures(bytes=count, requests=requests, gb_seconds=count), prices)
    more = cost_of(
        RunFigures(bytes=times * count, requests=times * requests, gb_seconds=times * count), prices
    )

    assert more.usd == pytest.approx(times * once.usd)
