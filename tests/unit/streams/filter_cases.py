"""Filters and items of few words, so that they meet; each filter with its meaning beside it."""

from typing import NamedTuple

from hypothesis import strategies as st

from tests.kit.streams import Facts, Group, Item, Kind, Leaf, Op, excluded, fold

#: Values as they may be written, some of which are the same, contain each other, or need no spaces.
TERMS = [
    *("deal", "Deal", "green", "green deal", "Straße", "strasse", "ice", "c++", "酷", "残酷"),
    *("東京", "กา", "삼성", "résumé", "resume", 'say "hi"', "re:invent", "-5", "or", "a\\b"),
]
TAGS = ["cop31", "COP31", "deal", "東京"]
ACCOUNTS = ["ann", "bob.example", "Ann"]
LANGUAGES = ["en", "de"]


class Meant(NamedTuple):
    """A filter as it is written, and its evaluation, which needs no canonical form."""

    text: str
    node: object
    takes: object


def _leaf(kind, sign, value, *, quoted=False):
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    text = f'"{escaped}"' if quoted else f"{sign}{value}"
    folded = fold(value)
    return Meant(text, Leaf(kind, folded), lambda item: Facts(item).has(kind, folded))


TERM = st.sampled_from(TERMS).map(lambda value: _leaf(Kind.TERM, "", value, quoted=True))
LEAF = (
    TERM
    | TERM
    | st.sampled_from(TAGS).map(lambda value: _leaf(Kind.HASHTAG, "#", value))
    | st.sampled_from(ACCOUNTS).map(lambda value: _leaf(Kind.MENTION, "@", value))
    | st.sampled_from(ACCOUNTS).map(lambda value: _leaf(Kind.AUTHOR, "from:", value))
    | st.sampled_from(LANGUAGES).map(lambda value: _leaf(Kind.LANGUAGE, "lang:", value))
)


def _excluded(one):
    return Meant(f"-({one.text})", excluded(one.node), lambda item: not one.takes(item))


def _all(members, *, word):
    text = word.join(f"({one.text})" for one in members)
    node = Group(Op.AND, tuple(one.node for one in members))
    return Meant(text, node, lambda item: all(one.takes(item) for one in members))


def _any(members):
    text = " OR ".join(f"({one.text})" for one in members)
    node = Group(Op.OR, tuple(one.node for one in members))
    return Meant(text, node, lambda item: any(one.takes(item) for one in members))


def _larger(inner):
    several = st.lists(inner, min_size=2, max_size=3)
    return (
        inner.map(_excluded)
        | st.builds(
            lambda them, word: _all(them, word=word), several, st.sampled_from([" ", " AND "])
        )
        | several.map(_any)
    )


#: Some would be refused: they exclude only, or contradict themselves.
MEANT = st.recursive(LEAF, _larger, max_leaves=6)

_WORDS = st.sampled_from([
    *TERMS, "ices", "dealer", "kar", "กาแฟ", "กิ", "東京都", "삼성전자", "나삼성", ",", "#cop31",
    "#deal,", "@ann", "x@ann", "@bob.example.", "c++11",
])  # fmt: skip
ITEMS = st.builds(
    Item,
    text=st.builds(
        lambda words, spaces: "".join(
            word + space for word, space in zip(words, spaces, strict=False)
        ),
        st.lists(_WORDS, max_size=8),
        st.lists(st.sampled_from([" ", " ", "  ", "", "\n"]), min_size=8, max_size=8),
    ),
    author=st.sampled_from(["", *ACCOUNTS]),
    language=st.sampled_from(["", *LANGUAGES]),
    hashtags=st.lists(st.sampled_from(TAGS), max_size=1).map(tuple),
    mentions=st.lists(st.sampled_from(ACCOUNTS), max_size=1).map(tuple),
)
