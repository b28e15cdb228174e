"""Filters mean what they say, have one canonical form, and are known to cover others or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import InvalidRequestError
from tests.kit.streams import (
    MOST_CHARACTERS,
    MOST_DEPTH,
    MOST_TERM_CHARACTERS,
    MOST_TERMS,
    Facts,
    Filter,
    Group,
    Item,
    Kind,
    Leaf,
    Op,
    anchors,
    covers,
    is_anchored,
    parse,
)
from tests.unit.streams.filter_cases import ITEMS, MEANT


def read(text):
    """Read a filter that may be refused for what it means, not for how it is written."""
    try:
        return parse(text)
    except InvalidRequestError as error:
        [problem] = error.problems
        assert "column" not in problem.message
        return None


@given(MEANT, st.lists(ITEMS, min_size=1, max_size=4))
def test_a_filter_takes_what_it_says(meant, items):
    found = Filter(meant.node)

    for item in items:
        assert found.takes(item) == meant.takes(item)


@given(MEANT)
def test_the_canonical_text_is_read_as_the_same_filter(meant):
    found = Filter(meant.node)
    if (given := read(meant.text)) is None:
        return

    again = parse(found.text)

    assert given == found

    assert (again.text, again.digest, again.root) == (found.text, found.digest, found.root)
    assert repr(again) == f"Filter({found.text!r})"
    assert {again, found} == {found}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("b a", "a b"),
        ("a OR b OR a", "b OR a"),
        ("a (b (c d))", "d c b a"),
        ("a OR (b OR (c))", "c OR b OR a"),
        ("-(-a)", "a"),
        ("x -(a OR b)", "x -a -b"),
        ("x -(a b)", "x (-a OR -b)"),
        ("x NOT a", "x -a"),
        ("a AND b", "a b"),
        ("a b OR c", "(a AND b) OR c"),
        ('"Green  DEAL"', '"green deal"'),
        ('"deal"', "Deal"),
        ("“green deal”", '"green deal"'),
        ("#COP31 @Ann from:@Bob lang:EN", "lang:en from:bob @ann #cop31"),
        ("straße", "STRASSE"),
        ("ｆｕｌｌ", "full"),
        ("a (b OR b)", "a b"),
    ],
)
def test_what_means_the_same_has_the_same_canonical_form(one, other):
    assert parse(one).text == parse(other).text
    assert parse(one).digest == parse(other).digest


@pytest.mark.parametrize(
    ("one", "other"), [("a b", "a OR b"), ("resume", "résumé"), ("#a", "a"), ("@a", "from:a")]
)
def test_what_means_something_else_has_another_digest(one, other):
    assert parse(one) != parse(other)
    assert parse(one).digest != parse(other).digest
    assert parse(one) != one


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column 1: a term is expected, and the filter ends here"),
        ("   ", "column 4: a term is expected, and the filter ends here"),
        ("a OR", "column 5: a term is expected, and the filter ends here"),
        ("a OR OR b", "column 6: a term is expected, and OR here"),
        ("a AND AND b", "column 7: a term is expected, and AND here"),
        ("a ()", "column 4: a term is expected, and a parenthesis ends here"),
        ("a (b", "column 3: this parenthesis is never closed"),
        ("a b)", "column 4: this parenthesis was never opened"),
        ('a "b c', "column 3: this quote is never closed"),
        (r'a "b\c"', r'column 5: in quotes "\" stands before " or \ alone'),
        ("a and b", 'column 3: write AND in capitals, or "and" in quotes for the word'),
        ("a - b", 'column 3: "-" stands directly before what it excludes'),
        ("a b:c", "column 3: b: is none of from: and lang:; put the term in quotes"),
        ("a #b-c", "column 3: #b-c is no hashtag: # and letters, digits or _"),
        ("a @", "column 3: @ is no account: letters, digits, _; . or - within"),
        ("a from:b!", "column 3: from:b! is no account: letters, digits, _; . or - within"),
        ("a lang:english", "column 3: lang:english is no language: lang:en, lang:pt-br"),
        ("a ...", "column 3: a term needs a letter, a digit or a symbol"),
        ('a "\u200b"', "column 3: a term needs a letter, a digit or a symbol"),
        ("a \ud800", "column 3: half of a character, or none, stands here"),
        ("a -a", "takes nothing: -a excludes what is required beside it"),
        ('-deal "green deal"', "takes nothing: -deal excludes what is required beside it"),
        ("b OR (a lang:de lang:en)", "takes nothing: lang:en excludes what is required beside it"),
        ("-a", "each alternative needs a term, hashtag or account that is not excluded"),
        ("lang:en", "each alternative needs a term, hashtag or account that is not excluded"),
        ("a OR -b", "each alternative needs a term, hashtag or account that is not excluded"),
    ],
)
def test_a_wrong_filter_gets_an_error_that_says_where(text, said):
    with pytest.raises(InvalidRequestError) as caught:
        parse(text, "subscriptions[3].filter")

    [problem] = caught.value.problems
    assert (problem.field, problem.message) == ("subscriptions[3].filter", said)


def test_filters_are_bounded_and_what_is_within_bounds_is_read():
    parse("(" * MOST_DEPTH + "a" + ")" * MOST_DEPTH)
    parse(" OR ".join(f"w{number}" for number in range(MOST_TERMS)))
    parse("a" * MOST_TERM_CHARACTERS)
    parse("a" + " " * (MOST_CHARACTERS - 1))

    for text, said in [
        ("(" * (MOST_DEPTH + 1) + "a" + ")" * (MOST_DEPTH + 1), "column 10: nested more than 8"),
        ("-" * 4_000 + "a", "column 10: nested more than 8"),
        (" OR ".join(f"w{number}" for number in range(MOST_TERMS + 1)), "more than 200 terms"),
        ("b " + "a" * (MOST_TERM_CHARACTERS + 1), "column 3: a term of 101 characters"),
        ("a" + " " * MOST_CHARACTERS, "has 4,097 characters; the most are 4,096"),
    ]:
        with pytest.raises(InvalidRequestError) as caught:
            parse(text)
        assert said in str(caught.value)


@given(st.text(alphabet='ab" ()-#@:\\ORANDTlang酷é́İ\u200b“”', max_size=30))
def test_any_text_is_a_filter_or_gets_an_error(text):
    try:
        found = parse(text)
    except InvalidRequestError as error:
        [problem] = error.problems
        assert problem.field == "filter"
    else:
        assert parse(found.text) == found


@given(MEANT, MEANT, st.lists(ITEMS, min_size=1, max_size=4))
def test_a_filter_that_covers_another_takes_all_that_the_other_takes(one, other, items):
    wide, narrow = Filter(one.node), Filter(other.node)
    both = Filter(Group(Op.OR, (one.node, other.node)))

    if covers(wide, narrow):
        for item in items:
            assert wide.takes(item) or not narrow.takes(item)
    assert covers(wide, wide)
    assert covers(both, wide)
    assert covers(both, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("a OR b", "a"),
        ("a", "a b"),
        ("a OR b", "(a c) OR (b d)"),
        ("a (b OR c)", "a b -d"),
        ("deal", '"green deal"'),
        ("x -ice", "x -ice -deal"),
        ('x -"green deal"', "x -deal"),
        ("酷", "残酷"),
        ("#a OR #b", "#b lang:en"),
    ],
)
def test_covering_is_seen_where_alternatives_lie_within_alternatives(wide, narrow):
    assert covers(parse(wide), parse(narrow))
    assert not covers(parse(narrow), parse(wide))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("ice", "ices"), ("a", "#a"), ("a b", "a"), ("@a", "from:a"), ("x -a", "x"), ("a -b", "a")],
)
def test_what_does_not_cover_is_never_said_to(wide, narrow):
    assert not covers(parse(wide), parse(narrow))


@given(MEANT, ITEMS)
def test_one_anchor_at_least_is_in_whatever_a_filter_takes(meant, item):
    found = Filter(meant.node)
    if not is_anchored(found.root):
        return

    chosen = anchors(found.root, lambda leaf: len(leaf.value))

    assert chosen
    assert not any(leaf.excluded for leaf in chosen)
    if found.takes(item):
        facts = Facts(item)
        assert any(facts.has(leaf.kind, leaf.value) for leaf in chosen)


def test_the_lightest_requirement_is_the_anchor_and_no_exclusion_or_language_is():
    weights = {"rare": 1, "common": 9, "middle": 5}
    found = anchors(parse("common -x lang:en (rare OR middle)").root, lambda it: weights[it.value])

    assert found == {Leaf(Kind.TERM, "rare"), Leaf(Kind.TERM, "middle")}
    assert not is_anchored(Leaf(Kind.LANGUAGE, "en"))


def test_hashtags_accounts_and_languages_beside_the_text_count():
    item = Item(text="", author="Ann", language="EN", hashtags=("COP31",), mentions=("Bob",))

    assert parse("#cop31 from:ann @bob lang:en").takes(item)
    assert not Filter(Leaf(Kind.AUTHOR, "ann")).takes(Item(text="ann"))
