import pytest

from tests.kit.config import Field, Follow, Reach, Rule, target_problems
from tests.kit.extract import LinkFilter, ended, page_number, site_of, within


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("www.example.com", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("one.github.io", "one.github.io"),
        ("10.0.0.1", "10.0.0.1"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("localhost", "localhost"),
        ("co.uk", "co.uk"),
        ("example.com.", "example.com"),
    ],
)
def test_a_site_is_what_somebody_registered(host, site):
    assert site_of(host) == site


def test_two_who_share_a_suffix_are_no_site():
    assert not within(Reach.SAME_SITE, "one.github.io", "two.github.io")
    assert not within(Reach.SAME_SITE, "10.0.0.1", "11.0.0.1")
    assert within(Reach.SAME_SITE, "a.example.com", "b.example.com")


def test_names_count_with_their_subdomains_and_nothing_else():
    assert within(("b.example",), "a.b.example", "x.example")
    assert not within(("b.example",), "ab.example", "b.example")


def test_a_link_is_refused_for_the_first_reason_there_is():
    follow = Follow(css="a")
    way = LinkFilter(follow, "a.example", lambda url: "yes" in url, lambda url: "no" in url)

    reasons = [
        way.refusal(url, host)
        for url, host in [
            ("https://b.example/no", "b.example"),
            ("https://a.example/yes-no", "a.example"),
            ("https://a.example/perhaps", "a.example"),
            ("https://a.example/yes", "a.example"),
        ]
    ]

    assert reasons == ["outside of domains", "in deny", "not in allow", None]


@pytest.mark.parametrize(
    ("follow", "depth", "meta", "reason"),
    [
        (Follow(css="a", max_depth=2), 1, {}, None),
        (Follow(css="a", max_depth=2), 2, {}, "deeper than max_depth"),
        (Follow(css="a", max_depth=0, pagination=True), 5, {}, None),
        (Follow(css="a", max_pages=3, pagination=True), 0, {"list_page": 2}, None),
        (Follow(css="a", max_pages=3, pagination=True), 0, {"list_page": 3}, "beyond max_pages"),
        (Follow(css="a", max_pages=1, pagination=True), 0, {}, "beyond max_pages"),
    ],
)
def test_a_crawl_ends_at_its_depth_and_a_list_at_its_last_page(follow, depth, meta, reason):
    assert ended(follow, depth, meta) == reason


@pytest.mark.parametrize("meta", [{}, {"list_page": 0}, {"list_page": -1}, {"list_page": None}])
def test_a_page_that_does_not_say_which_one_it_is_is_the_first(meta):
    assert page_number(meta) == 1


def test_links_lead_to_readers_that_there_are():
    rule = Rule(
        fields={"a": Field(css="a")},
        follow=(Follow(css="a"), Follow(css="a", rule="detail"), Follow(css="a", rule="detial")),
    )

    [problem] = target_problems(rule, {"list", "detail"})
    assert problem.field == "follow[2].rule"
    assert "'detial'" in problem.message
    assert "detail, list" in problem.message
