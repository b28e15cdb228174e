from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Biz, Generation, KeyRules, SeedPolicy
from tests.kit.frontier import (
    KEY_BYTES,
    SeedKeyResolver,
    canonical,
    default_resolver,
    keys_of,
    seed_key,
)
from tests.kit.kernel import InvalidRequestError

SAME = [
    # how it is written
    ("http://a.example", "http://a.example/"),
    ("http://a.example?b=1", "http://a.example/?b=1"),
    ("HTTP://A.Example/", "http://a.example/"),
    ("  http://a.example/\n", "http://a.example/"),
    ("http://a.example:80/x", "http://a.example/x"),
    ("https://a.example:443/x", "https://a.example/x"),
    ("https://a.example:/x", "https://a.example/x"),
    ("http://a.example./x", "http://a.example/x"),
    ("http://a.example.:80/x", "http://a.example/x"),
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://[0:0:0:0:0:0:0:1]/", "http://[::1]:80/"),
    ("http://a.example/%7euser", "http://a.example/~user"),
    ("http://a.example/%c3%bc", "http://a.example/ü"),
    ("http://a.example/a%2fb", "http://a.example/a%2Fb"),
    ("http://a.example/a b", "http://a.example/a%20b"),
    ("http://a.example/a/./b/../c", "http://a.example/a/c"),
    ("http://a.example/../x", "http://a.example/x"),
    ("http://a.example/?", "http://a.example/"),
    ("http://a.example/#", "http://a.example/"),
    ("http://a.example/#part", "http://a.example/"),
    # parameters
    ("http://a.example/?b=1&a=2", "http://a.example/?a=2&b=1"),
    ("http://a.example/?a=2&a=1", "http://a.example/?a=1&a=2"),
    ("http://a.example/?a", "http://a.example/?a="),
    ("http://a.example/?q=x%20y", "http://a.example/?q=x+y"),
    ("http://a.example/?q=%e4", "http://a.example/?q=%E4"),
    ("http://a.example/?q=%41", "http://a.example/?q=A"),
    ("http://a.example/?&a=1&", "http://a.example/?a=1"),
    # time stamps and chance
    ("http://a.example/?_=1767225600000&a=1", "http://a.example/?a=1"),
    ("http://a.example/?t=1767225600", "http://a.example/"),
    ("http://a.example/?ts=1767225600.123", "http://a.example/"),
    ("http://a.example/?timestamp=1767225600000000", "http://a.example/"),
    ("http://a.example/?_T=1767225600000", "http://a.example/"),
    ("http://a.example/?r=0.8437261905", "http://a.example/"),
    ("http://a.example/?nocache=17", "http://a.example/"),
    ("http://a.example/?rand=93f0aa12b", "http://a.example/"),
    ("http://a.example/?_dc=1767225600000", "http://a.example/"),
    ("http://a.example/?cb=1767225600000", "http://a.example/"),
    # sessions
    ("http://a.example/?PHPSESSID=x", "http://a.example/"),
    ("http://a.example/?jsessionid=0A", "http://a.example/"),
    ("http://a.example/?sid=9f86d081884c7d659a2f", "http://a.example/"),
    ("http://a.example/?ASPSESSIONIDQQDCABTT=1", "http://a.example/"),
    ("http://a.example/x;jsessionid=0A1B?a=1", "http://a.example/x?a=1"),
    ("http://a.example/x;JSESSIONID=0A1B.node3/y", "http://a.example/x/y"),
    ("http://a.example/x;v=2;jsessionid=1;w=3/y", "http://a.example/x;v=2;w=3/y"),
    ("http://a.example/;jsessionid=1", "http://a.example/"),
    ("http://a.example/a/..;jsessionid=1/b", "http://a.example/b"),
    ("http://a.example/app/(S(4mckk5k4))/x.aspx", "http://a.example/app/x.aspx"),
    ("http://a.example/(A(aa)S(4mckk5k4)F(bb))/x", "http://a.example/x"),
    # callbacks
    ("http://a.example/?callback=jQuery34105_1767225600000", "http://a.example/"),
    ("http://a.example/?jsonp=jsonp12", "http://a.example/"),
    ("http://a.example/?callback=angular.callbacks._0", "http://a.example/"),
    ("http://a.example/?cb=__jp7", "http://a.example/"),
    # tracking
    ("http://a.example/?utm_source=a&utm_campaign=b&x=1", "http://a.example/?x=1"),
    ("http://a.example/?gclid=a&fbclid=b&msclkid=c&mc_eid=d", "http://a.example/"),
]

DIFFERENT = [
    ("http://a.example/", "https://a.example/"),
    ("http://a.example/", "http://www.a.example/"),
    ("http://a.example/", "http://b.example/"),
    ("http://a.example/", "http://a.example:8080/"),
    ("http://a.example:443/", "http://a.example/"),
    ("http://a.example/x", "http://a.example/x/"),
    ("http://a.example/x", "http://a.example/X"),
    ("http://a.example/a%2Fb", "http://a.example/a/b"),
    ("http://a.example/a%3Fb", "http://a.example/a?b"),
    ("http://a.example//x", "http://a.example/x"),
    ("http://a.example/?a=1", "http://a.example/?a=2"),
    ("http://a.example/?a=1", "http://a.example/?A=1"),
    ("http://a.example/?a=1&a=1", "http://a.example/?a=1"),
    ("http://a.example/?q=a%26b", "http://a.example/?q=a&b"),
    ("http://a.example/?q=a%2Bb", "http://a.example/?q=a+b"),
    ("http://a.example/#!page", "http://a.example/"),
    ("http://a.example/#!page", "http://a.example/#!other"),
    # what only looks alike
    ("http://a.example/?t=10", "http://a.example/?t=11"),
    ("http://a.example/?t=90s", "http://a.example/"),
    ("http://a.example/?timestamp=2026-01-01", "http://a.example/"),
    ("http://a.example/?sid=1234", "http://a.example/?sid=1235"),
    ("http://a.example/?s=shoes", "http://a.example/?s=hats"),
    ("http://a.example/?s=a-very-long-query-for-shoes", "http://a.example/"),
    ("http://a.example/?callback=phone", "http://a.example/"),
    ("http://a.example/?random=yes", "http://a.example/"),
    ("http://a.example/?id=1767225600000", "http://a.example/"),
    ("http://a.example/x;v=2", "http://a.example/x"),
    ("http://a.example/(S)/x", "http://a.example/x"),
    ("http://a.example/?utm=1", "http://a.example/"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_page_has_one_key(one, other):
    assert canonical(one).url == canonical(other).url
    assert seed_key(one) == seed_key(other)
    assert len(seed_key(one)) == KEY_BYTES


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_two_pages_have_two_keys(one, other):
    assert seed_key(one) != seed_key(other)


RULED = [
    (KeyRules(ignore=("page",)), "http://a.example/?page=2&x=1", "http://a.example/?x=1"),
    (KeyRules(ignore=("PAGE",)), "http://a.example/?Page=2", "http://a.example/"),
    (KeyRules(ignore=("f_*",)), "http://a.example/?f_a=1&f_b=2&g=3", "http://a.example/?g=3"),
    (KeyRules(keep=("t",)), "http://a.example/?t=1767225600", "http://a.example/?t=1767225600"),
    (KeyRules(keep=("utm_*",)), "http://a.example/?utm_id=1", "http://a.example/?utm_id=1"),
    (KeyRules(keep=("a",), ignore=("*",)), "http://a.example/?a=1&b=2", "http://a.example/?a=1"),
    (
        KeyRules(keep=("jsessionid",)),
        "http://a.example/x;jsessionid=1",
        "http://a.example/x;jsessionid=1",
    ),
    (KeyRules(only=("id",)), "http://a.example/?id=1&x=2&gclid=3", "http://a.example/?id=1"),
    (
        KeyRules(only=("_",)),
        "http://a.example/?_=1767225600000&x=2",
        "http://a.example/?_=1767225600000",
    ),
    (KeyRules(only=("id",), ignore=("id",)), "http://a.example/?id=1", "http://a.example/"),
    (KeyRules(ignore_scheme=True), "https://a.example/x", "http://a.example/x"),
    (KeyRules(ignore_scheme=True), "https://a.example:443/x", "http://a.example/x"),
    (KeyRules(ignore_www=True), "http://www.a.example/x", "http://a.example/x"),
    (KeyRules(ignore_www=True), "http://www.example/x", "http://www.example/x"),
    (KeyRules(fragment=True), "http://a.example/x#part", "http://a.example/x#part"),
]


@pytest.mark.parametrize(("rules", "url", "form"), RULED)
def test_a_biz_says_what_counts(rules, url, form):
    assert canonical(url, rules).url == form


def test_what_was_dropped_is_reported_with_the_reason():
    url = "https://a.example.:443/x;jsessionid=1?utm_id=7&_=1767225600000&callback=cb1&s=1#top"

    assert [(each.what, each.why) for each in canonical(url).dropped] == [
        (";jsessionid=1", "session id"),
        (":443", "default port"),
        (".", "final dot of the host"),
        ("_=1767225600000", "time stamp"),
        ("callback=cb1", "JSONP callback"),
        ("utm_id=7", "tracking"),
        ("#top", "fragment"),
    ]


def test_method_and_body_count_where_it_is_not_get():
    url = "http://a.example/"
    keys = [
        seed_key(url),
        seed_key(url, method="POST"),
        seed_key(url, method="POST", body=b"a=1"),
        seed_key(url, method="PUT", body=b"a=1"),
    ]

    assert len(set(keys)) == 4
    assert seed_key(url, method="get", body=b"a=1") == keys[0]
    assert seed_key(f"{url}#x", method="post", body=b"a=1") == keys[2]


@pytest.mark.parametrize("url", ["http://a.example:99999/", "http://[::1/", "http://a:b/"])
def test_what_is_no_url_is_refused_by_name(url):
    with pytest.raises(InvalidRequestError, match=r"^url: "):
        seed_key(url)


def test_a_key_does_not_depend_on_the_process():
    assert seed_key("http://a.example/").hex() == "a0354127cc7455ad2af528c81f6080b9"


NAMES = st.sampled_from(
    ["a", "b", "q", "t", "_", "sid", "PHPSESSID", "callback", "utm_id", "ü", "a b", "%", "x[1]", ""]
)
VALUES = st.sampled_from(
    ["", "1", "1767225600", "0.12345678", "9f86d081884c7d659a2f", "jQuery1_2", "a/b?c", "ä&", "=%2"]
)
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=6)
PATHS = st.lists(
    st.sampled_from(
        [
            "",
            ".",
            "..",
            "a",
            "Ü b",
            "%2e",
            "%zz",
            "x;jsessionid=1",
            "..;sessionid=2",
            "(S(aa))",
            "y;v=1;sid=3",
            ";phpsessid=1",
            "(S(a));jsessionid=1",
            "%2F",
            "%3B",
            "a:b@c",
            "x;",
            "%25",
        ]
    ),
    max_size=6,
).map("/".join)
HOSTS = st.sampled_from(
    [
        "a.example",
        "WWW.A.example.",
        "www.www.a.example:80",
        "a.example:443",
        "bücher.example:8080",
        "[::1]:443",
        "127.0.0.1",
        "www.example:80",
    ]
)
RULES = st.builds(
    KeyRules,
    ignore=st.sampled_from([(), ("a",), ("u*",)]),
    keep=st.sampled_from([(), ("t", "sid"), ("jsessionid",)]),
    only=st.sampled_from([(), ("a", "q")]),
    ignore_scheme=st.booleans(),
    ignore_www=st.booleans(),
    fragment=st.booleans(),
)
URLS = st.builds(
    lambda scheme, host, path, pairs, fragment: (
        f"{scheme}://{host}/{path}?"
        + "&".join(f"{name}={quote(value)}" for name, value in pairs)
        + fragment
    ),
    st.sampled_from(["http", "https", "HTTPS"]),
    HOSTS,
    PATHS,
    PAIRS,
    st.sampled_from(["", "#", "#part", "#!page", "#a b"]),
)


@given(url=URLS, rules=RULES)
def test_the_canonical_form_is_its_own(url, rules):
    form = canonical(url, rules).url

    assert canonical(form, rules).url == form
    assert seed_key(form, rules) == seed_key(url, rules)


@given(url=st.text(max_size=40).map(lambda text: f"http://a.example/{text}"))
def test_the_canonical_form_of_any_text_is_its_own_and_plain(url):
    form = canonical(url).url

    assert form.isascii()
    assert canonical(form).url == form


@given(pairs=PAIRS, chance=st.randoms(use_true_random=False), rules=RULES)
def test_the_order_of_parameters_does_not_matter(pairs, chance, rules):
    shuffled = pairs.copy()
    chance.shuffle(shuffled)

    def url(given):
        return "http://a.example/?" + "&".join(f"{name}={quote(value)}" for name, value in given)

    assert seed_key(url(pairs), rules) == seed_key(url(shuffled), rules)


def biz_with(**resolvers: str) -> Biz:
    route = Generation(starts_at=datetime(2026, 1, 1, tzinfo=UTC), nodes=("a",), databases=("b",))
    return Biz(generations=(route,), seeds=SeedPolicy(resolvers=resolvers))


def test_a_url_has_the_default_key_and_one_of_each_resolver_that_its_biz_names():
    asked: list[str] = []

    def resolver_of(biz: Biz, rule: str) -> SeedKeyResolver:
        asked.append(rule)
        name = biz.seeds.resolvers.get(rule)
        return seed_key if name is None else lambda *_, **__: name.encode()

    biz = biz_with(shop="one", list="two", page="one")

    assert keys_of("http://a.example/", biz, resolver_of) == [
        seed_key("http://a.example/"), b"two", b"one"
    ]  # fmt: skip
    assert asked == ["", "list", "shop"]
    assert keys_of("http://a.example/", biz_with(), default_resolver) == [
        seed_key("http://a.example/")
    ]


def test_a_resolver_that_fails_leaves_the_keys_of_the_others():
    def resolver_of(biz: Biz, rule: str) -> SeedKeyResolver:
        if rule:
            raise InvalidRequestError.of(f"seeds.resolvers.{rule}", "is not there")
        return seed_key

    biz = biz_with(shop="none")

    assert keys_of("http://a.example/", biz, resolver_of) == [seed_key("http://a.example/")]
    with pytest.raises(InvalidRequestError) as caught:
        keys_of("http://[", biz, resolver_of)
    assert caught.value.problems[0].field == "url"
