"""The scheduler reads an order of a rule whole, or names every validation error of it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.apps import is_start, order_in, what_failed
from tests.kit.kernel import InvalidRequestError
from tests.kit.spiders import Range, Start, bind, url_at

START = {
    "crawlfleet": "start",
    "tenant": "acme",
    "biz": "docs",
    "spider": "shop",
    "values": {"zone": "north", "page": 3},
    "priority": 9,
    "version": 2,
    "id": "53dc4d37",
    "time": "2026-03-10T12:00:00Z",
}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


def event(**changes: object) -> dict[str, object]:
    return {name: value for name, value in {**START, **changes}.items() if value is not None}


def test_an_order_has_what_the_rule_says():
    order = order_in(event())

    assert (order.tenant, order.biz, order.spider, order.version) == ("acme", "docs", "shop", 2)
    assert (order.values, order.priority, order.by) == ({"zone": "north", "page": "3"}, 9, "event")
    assert order.name.startswith("shop.event.")


def test_an_event_has_one_name_however_it_comes():
    name = order_in(event()).name

    assert order_in(dict(reversed(event().items()))).name == name
    # A redelivery may carry another time of delivery; its id is what it is.
    assert order_in(event(time=None)).name == name


@pytest.mark.parametrize(
    "change", [{"id": "other"}, {"values": {}}, {"version": 3}, {"priority": 1}, {"biz": "news"}]
)
def test_another_event_or_another_rule_is_another_job(change):
    assert order_in(event(**change)).name != order_in(event()).name


def test_without_an_id_the_time_of_the_rule_makes_it_one():
    first = order_in(event(id=None)).name

    assert order_in(event(id=None, time="2026-03-10T13:00:00+01:00")).name != first
    assert order_in(event(id=None)).name == first
    with pytest.raises(InvalidRequestError, match=r"id: .* time"):
        order_in(event(id=None, time=None))


def test_every_error_is_named():
    with pytest.raises(InvalidRequestError) as caught:
        order_in(
            event(
                crawlfleet="begin",
                tenant="A b",
                spider="My Shop",
                values={"Zone": "x", "zone": "", "page": True},
                priority=11,
                version=0,
                id="",
                time="noon",
                url="https://example.org/",
            )
        )

    assert {problem.field for problem in caught.value.problems} == {
        "crawlfleet",
        "tenant",
        "spider",
        "values.Zone",
        "values.zone",
        "values.page",
        "priority",
        "version",
        "id",
        "time",
        "url",
    }


@pytest.mark.parametrize(
    "values",
    [
        {"zone": "x" * 513},
        {"zone": None},
        {"zone": ["a"]},
        {f"p{n}": "x" for n in range(9)},
        {"page": 2**60},
        {"page": 1.5},
    ],
)
def test_values_are_bounded(values):
    with pytest.raises(InvalidRequestError):
        order_in(event(values=values))


def test_an_event_without_an_input_of_the_rule_is_reported():
    created = {"detail-type": "Object Created", "detail": {}}

    assert is_start(created)
    with pytest.raises(InvalidRequestError, match="crawlfleet: is missing"):
        order_in(created)
    assert not is_start({})
    assert not is_start({"detail-type": "Scheduled Event", "source": "aws.events"})


@given(st.dictionaries(st.sampled_from([*START, "x"]), anything))
def test_no_event_breaks_the_reading(said):
    reported = {"crawlfleet": "start", **said}

    assert is_start(reported)
    with contextlib.suppress(InvalidRequestError):
        assert len(order_in(reported).name) <= 64
    assert len(what_failed(reported)) <= 64


@given(st.text(min_size=1, max_size=40).filter(lambda text: text not in {".", ".."}))
def test_whatever_a_value_is_it_stays_one_part_of_the_path(value):
    start = Start(pattern="https://a.example/{zone}/{page}", values={"page": Range(last=2)})
    try:
        order = order_in(event(values={"zone": value}))
    except InvalidRequestError:
        return  # half of a surrogate pair, which no JSON of UTF-8 holds
    bound, problems = bind(start, order.values)

    assert problems == []
    url = url_at(bound, 1)
    assert url.startswith("https://a.example/")
    assert url.endswith("/2")
    assert url.count("/") == 4
    assert not set("?#{}@\\ ") & set(url)
