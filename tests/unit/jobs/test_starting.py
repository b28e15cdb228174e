"""The URLs of a job's tasks: all of them, each once, by its number alone."""

from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.spiders import (
    LARGEST_JOB,
    Range,
    Start,
    bind,
    open_places,
    places,
    problems_with,
    size,
    url_at,
)

texts = st.text(min_size=1, max_size=12).filter(lambda text: text not in {".", ".."})
lists = st.lists(texts, min_size=1, max_size=5, unique=True).map(tuple)
ranges = st.builds(
    lambda first, more, step: Range(first=first, last=first + more, step=step),
    st.integers(0, 50),
    st.integers(0, 20),
    st.integers(1, 7),
)
names = st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,4}", fullmatch=True), max_size=3, unique=True)


@st.composite
def patterns(draw: st.DrawFn) -> Start:
    found = draw(names)
    path = "/".join(f"{{{name}}}" for name in found)
    values = {name: draw(st.one_of(lists, ranges)) for name in found}
    return Start(pattern=f"https://shop.example/x/{path}", values=values)


@given(patterns())
def test_a_pattern_makes_every_combination_once(start: Start):
    urls = [url_at(start, index) for index in range(size(start))]

    assert problems_with(start) == []
    assert len(set(urls)) == len(urls) == size(start)
    expected = 1
    for values in start.values.values():
        expected *= values.count if isinstance(values, Range) else len(values)
    assert size(start) == expected


@given(patterns(), st.integers(0, 10**6))
def test_what_is_put_in_stays_in_its_place(start: Start, any_index: int):
    url = urlsplit(url_at(start, any_index % size(start)))

    assert (url.scheme, url.netloc, url.query, url.fragment) == ("https", "shop.example", "", "")
    put = url.path.removeprefix("/x/").split("/")
    for name, text in zip(start.values, put, strict=False):
        values = start.values[name]
        if not isinstance(values, Range):
            assert unquote(text, errors="surrogatepass") in values


@given(texts)
def test_a_value_that_is_given_ends_where_one_of_the_list_would(text: str):
    given_later = Start(pattern="https://a.example/{x}/end")
    of_the_list = Start(pattern="https://a.example/{x}/end", values={"x": (text,)})

    bound, problems = bind(given_later, {"x": text})

    assert problems == []
    assert url_at(bound, 0) == url_at(of_the_list, 0)
    assert open_places(bound) == ()


def test_a_value_for_no_place_is_told_the_open_places():
    def said(pattern: str) -> str:
        [problem] = bind(Start(pattern=pattern), {"m": "1", "n": "1"})[1]
        return problem.message

    assert said("https://a.example/{n}") == "there is no such place to fill; its open places: n"
    with_none = bind(Start(pattern="https://a.example/"), {"m": "1"})[1]
    assert [str(one) for one in with_none] == [
        "values.m: there is no such place to fill: it leaves no place open"
    ]


def test_a_value_for_urls_with_braces_is_told_that_a_pattern_has_places():
    [problem] = bind(Start(urls=("https://a.example/{n}",)), {"n": "1"})[1]

    assert str(problem) == (
        "values.n: there is no such place to fill: URLs are taken as they are; "
        "a `pattern` has places in braces"
    )


def test_urls_are_their_own_tasks():
    start = Start(urls=("https://a.example/{x}", "https://a.example/2"))

    assert (size(start), url_at(start, 0), url_at(start, 1)) == (2, *start.urls)
    assert places(start) == ()


def test_a_million_tasks_are_as_quickly_known_as_one():
    start = Start(
        pattern="https://a.example/{a}?n={n}", values={"a": ("x", "y"), "n": Range(last=500_000)}
    )

    assert size(start) == 1_000_000
    assert url_at(start, 999_999) == "https://a.example/y?n=500000"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "values.x"),
        ({"x": "1", "y": "2"}, "values.y"),
        ({"x": ".."}, "values.x"),
        ({"x": "."}, "values.x"),
    ],
)
def test_values_that_do_not_fit_are_named(values: dict[str, str], field: str):
    start = Start(pattern="https://a.example/{x}")

    bound, problems = bind(start, values)

    assert [problem.field for problem in problems] == [field]
    assert bound == start


@pytest.mark.parametrize(
    ("start", "field"),
    [
        (Start(), "start.urls"),
        (Start(urls=("https://a.example/",) * 2), "start.urls[1]"),
        (Start(urls=("https://a.example/",), values={"n": Range(last=2)}), "start.values"),
        (Start(urls=("https://a.example/",), pattern="https://a.example/"), "start.urls"),
        (Start(pattern="ftp://a.example/"), "start.pattern"),
        (Start(pattern="https://{host}/x"), "start.pattern"),
        (Start(pattern="https://a.example{x}/"), "start.pattern"),
        (Start(pattern="https://a.example:{x}/"), "start.pattern"),
        (Start(pattern="https://{x}@a.example/"), "start.pattern"),
        (Start(pattern="https://a.example\\{x}/"), "start.pattern"),
        (Start(pattern="https://a.example/{x"), "start.pattern"),
        (Start(pattern="https://a.example/x}"), "start.pattern"),
        (Start(pattern="https://a.example/{No}"), "start.pattern"),
        (Start(pattern="https://a.example/{}"), "start.pattern"),
        (Start(pattern="https://a.example/", values={"n": Range(last=2)}), "start.values.n"),
        (
            Start(pattern="https://a.example/{n}", values={"n": Range(first=3, last=2)}),
            "start.values.n",
        ),
        (Start(pattern="https://a.example/{n}", values={"n": ()}), "start.values.n"),
        (Start(pattern="https://a.example/{n}", values={"n": ("a", "a")}), "start.values.n"),
        (Start(pattern="https://a.example/{n}", values={"n": ("a", "..")}), "start.values.n[1]"),
        (
            Start(pattern="https://a.example/{n}", values={"n": Range(last=LARGEST_JOB + 1)}),
            "start.values",
        ),
    ],
)
def test_a_wrong_start_names_what_is_wrong(start: Start, field: str):
    assert [problem.field for problem in problems_with(start)] == [field]


def test_a_start_is_read_from_what_a_client_writes():
    written = b'{"pattern": "https://a.example/{k}/{n}", "values": {"k": ["a"], "n": {"last": 3}}}'

    start = msgspec.json.decode(written, type=Start)

    assert [url_at(start, index) for index in range(size(start))] == [
        f"https://a.example/a/{number}" for number in (1, 2, 3)
    ]
