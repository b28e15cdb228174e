"""The guard lets through what people write, and no page hides from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.kit.examples import examples
from tests.kit.extract import DEPTH_MAX, Elements, UnreadableError, guard_html, walk

#: Each begins an element that stays open, and ends one that seems to be it.
HIDING = [
    b"<svg><title><div>",
    b"<svg><style><g>",
    b"<div><object></div></object>",
    b"<div><table><td></div></table>",
    b"<span><p></span></p>",
    b"<span><div></span></div>",
    b"<svg><![CDATA[</g></g>]]><g>",
    b"<svg><path/></svg><svg><desc><path/>",
    b"<svg><p><path/>",
    b"<svg><td>",
    b"<svg><input>",
    b"<script><!--<script></script></div></script>--></script><div>",
    b"<svg><style><!--</style></g>--></style><g>",
    b"<!--</div>--><div>",
    b"<div a='</div>'>",
    b"<textarea></div></textarea><div>",
    b"<select></div></select><div>",
    b"<p><button>",
    b"<math><mi></math></mi>",
    b"<em><li></em>",
    b"<ins><table></ins>",
]


@pytest.mark.parametrize("unit", HIDING, ids=lambda unit: unit.decode())
@pytest.mark.parametrize("once", [True, False], ids=["once", "each"])
def test_depth_does_not_hide(unit, once):
    deep = unit + b"<div>" * 60_000 if once else unit * 50_000

    with pytest.raises(UnreadableError, match="deep"):
        guard_html(deep)


def test_an_empty_comment_hides_nothing_and_is_no_reason_to_refuse():
    with pytest.raises(UnreadableError, match="deep"):
        guard_html(b"<!--></div>--><div>" + b"<div>" * 60_000)

    guard_html(b"<!--></div>--><div>" * 50_000)


@pytest.mark.parametrize(
    "closing",
    [
        b"",
        b"<table><td></b></table>",
        b"<object></b></object>",
        b"<select></b></select>",
        b"<svg><desc></b></desc></svg>",
        b"<template></b></template>",
        b"<!--</b>-->",
        b"<i a='</b>'></i>",
    ],
    ids=bytes.decode,
)
def test_formatting_that_is_built_again_does_not_hide(closing):
    body = b"<p>" + b"".join(b"<b id=%d>" % i + closing for i in range(2_000)) + b"<p>x" * 2_000

    with pytest.raises(UnreadableError):
        guard_html(body)


def depth_of(body):
    """Return the depth to which lexbor's elements are nested."""
    root = LexborHTMLParser(body).root
    deepest, level = 0, [root] if root is not None else []
    while level:
        deepest += 1
        below = []
        for node in level:
            child = node.child
            while child is not None:
                if child.is_element_node:
                    below.append(child)
                child = child.next
        level = below
    return deepest


TAGS = st.sampled_from(
    [
        *(f"<{name}>" for name in (*"b i p a", "div", "span", "li", "ul", "td", "tr", "table")),
        *(f"</{name}>" for name in (*"b i p a", "div", "span", "li", "ul", "td", "tr", "table")),
        *("<svg>", "</svg>", "<g>", "</g>", "<path/>", "<desc>", "</desc>", "<input>", "<math>"),
        *("<object>", "</object>", "<select>", "</select>", "<option>", "<button>", "</button>"),
        *("<template>", "</template>", "<h1>", "</h2>", "<form>", "</form>", "<dd>", "<dl>"),
        *("<!--", "-->", "<title>", "</title>", "<style>", "</style>", "<caption>", "<br/>", "x"),
        *("<b id=1>", "<div a='>'>", "<script><!--", "<script>", "</script>", "<![CDATA[", "]]>"),
    ]
)


class Watched(Elements):
    """Open elements that remember how many there may have been at once."""

    __slots__ = ("deepest",)

    def __init__(self):
        super().__init__()
        self.deepest = 0

    def guard(self, tags):
        super().guard(tags)
        self.deepest = max(self.deepest, len(self.stack) + self.hidden + self.formatting)

    def cdata(self, body, at):
        found = super().cdata(body, at)
        self.guard(0)
        return found


@examples(4)
@given(st.lists(TAGS, min_size=1, max_size=12), st.lists(TAGS, max_size=6))
def test_a_page_is_never_deeper_than_what_was_counted(unit, before):
    """Repeated, what grows shows: a parser's depth against what the walk counts."""
    body = ("".join(before) + "".join(unit) * 60).encode()
    grown = depth_of(body)

    watched = Watched()
    walk(body, body.count(b"<"), watched)

    # Tables bring elements that are not written, formatting is built again: both are a factor.
    assert grown <= 4 * watched.deepest + 20


ROW = b"<tr><td class='a'><b>x</b> <a href='/?a=1&b=2'>y<br></a><!-- </table> --><td><li>z"
ICON = b"<i class=icon><svg viewBox='0 0 1 1'><path d='M1'/><path d='M2' /></svg></i> text <br>"


@pytest.mark.parametrize(
    "page",
    [
        b"<table>" + ROW * 9_000 + b"</table><script>if (a<b) {'<div>'}</script>",
        b"<div>" + ICON * 9_000 + b"</div>",
        b"<ul>" + b"<li><a href='x'><span>y</span></a><p>one<p>two" * 12_000,
        b"<p>some <font color=red>text<p>more</font> text" * 200 + b"<i>x</i>" * 25_000,
        b"<dl>" + b"<dt><a name='x'>y</a><dd><code>z</code><p>a" * 12_000 + b"</dl>",
        b"<svg>" + b'<g><path d="M0"/><use href="#a"/></g>' * 12_000 + b"</svg>",
        b"<svg><style><![CDATA[ .a > .b {} ]]></style>" + b'<rect x="1"/>' * 45_000 + b"</svg>",
        b"<select>" + b"<option>x<option>y" * 25_000 + b"</select>",
        b"<div><p>x</div>" * 25_000,
        b"<table><tr><td><table><tr><td>x</table></table>" * 7_000,
        b"<script><!-- var a = '<div>'; --></script><p>x</p>" * 12_000,
    ],
    ids=lambda page: repr(page[:30]),
)
def test_large_pages_as_people_write_them_pass(page):
    assert page.count(b"<") > 40_000

    guard_html(page)


@pytest.mark.parametrize(
    "page",
    [
        b"<a " + b" ".join(b"a%d=1" % i for i in range(30_000)) + b">",
        b"<a " + b" ".join(b'a%d=">"' % i for i in range(25_000)) + b">",
        b"<a " + b" ".join(b"a%d = '<>'" % i for i in range(25_000)) + b">",
        b"<a " + b"/".join(b"a%d" % i for i in range(40_000)) + b">",
    ],
    ids=lambda page: repr(page[:12]),
)
def test_attributes_do_not_hide(page):
    with pytest.raises(UnreadableError, match="attributes"):
        guard_html(page)


def test_many_attributes_of_several_tags_are_no_reason_to_refuse():
    guard_html((b"<a " + b" ".join(b"a%d" % i for i in range(900)) + b" b='>") * 150)


def test_a_page_just_deep_enough_passes_the_walk():
    walk(b"<div>" * DEPTH_MAX, DEPTH_MAX)

    with pytest.raises(UnreadableError, match="5,000 deep"):
        walk(b"<div>" * (DEPTH_MAX + 1), DEPTH_MAX + 1)
