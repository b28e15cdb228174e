"""Folding and the boundaries of words, in scripts with and without spaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.streams import fold, hashtags, is_whole, mentions, occurrences


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("  A\t\nB ", "a b"),
        ("STRASSE Straße", "strasse strasse"),
        ("ＧＲＥＥＮ ﬁn", "green fin"),
        ("e\u0301 \u00c9", "\u00e9 \u00e9"),
        ("it’s “so” — or – so", 'it\'s "so" - or - so'),
        ("soft\u00adhyphen \u200fright\u200e ❤\ufe0f", "softhyphen right ❤"),
        ("no\u200bspace", "no space"),
        ("ΣΊΣΥΦΟΣ ς", "σίσυφοσ σ"),
        ("İstanbul", "i\u0307stanbul"),
        ("می\u200cخواهم", "میخواهم"),
    ],
)
def test_what_people_take_for_the_same_is_folded_to_the_same(text, folded):
    assert fold(text) == folded


@examples(3)
@given(st.text())
def test_folding_twice_changes_nothing(text):
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize(
    ("text", "term", "found"),
    [
        ("a green deal.", "green deal", True),
        ("evergreen deal", "green deal", False),
        ("green deals", "green deal", False),
        ("green-deal", "green", True),
        ("green_deal", "green", False),
        ("c++ and c", "c++", True),
        ("c++11", "c++", True),
        ("#deal", "deal", True),
        ("don't", "don", True),
        ("残酷な", "酷", True),
        ("人工ai技術", "ai", True),
        ("aix技術", "ai", False),
        ("กาแฟ", "กา", True),
        ("กิน", "ก", False),
        ("삼성전자가", "삼성", True),
        ("나삼성", "삼성", False),
        ("삼성abc", "삼성", True),
        ("हिन्दी", "हिन्द", False),
        ("हिन्दी में", "हिन्दी", True),
        ("x\u0301", "x", False),
        ("deals deal", "deal", True),
        ("", "a", False),
    ],
)
def test_a_term_is_found_as_whole_words_alone(text, term, found):
    assert (next(occurrences(text, term), None) is not None) is found


@given(st.text(alphabet="ab 酷กั삼é_-", max_size=12), st.data())
def test_whole_words_do_not_depend_on_what_is_further_away(text, data):
    start = data.draw(st.integers(0, max(0, len(text) - 1)))
    end = data.draw(st.integers(start + 1, max(start + 1, len(text))))
    if end > len(text):
        return

    near = text[max(0, start - 1) : end + 1]
    offset = start - max(0, start - 1)

    assert is_whole(text, start, end) == is_whole(near, offset, offset + end - start)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#a #b_1, #c-d", {"a", "b_1", "c"}),
        ("a#b ##c # d #", {"c"}),
        ("#हिन्दी #東京都", {"हिन्दी", "東京都"}),
        ("none", set()),
    ],
)
def test_hashtags_are_found_whole(text, tags):
    assert hashtags(text) == tags


@pytest.mark.parametrize(
    ("text", "accounts"),
    [
        ("@ann, @bob.example. (@c_d)", {"ann", "bob.example", "c_d"}),
        ("me@mail.example @ann@other", {"ann"}),
        ("none", set()),
    ],
)
def test_accounts_are_found_where_they_are_named(text, accounts):
    assert mentions(text) == accounts
