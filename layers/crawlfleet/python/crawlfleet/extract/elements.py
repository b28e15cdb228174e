"""What HTML's standard says of elements, as far as it decides what a tag closes (``nesting``)."""

from collections.abc import Sequence
from typing import Final, NamedTuple


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


#: Built again where they are missing.
FORMATTING: Final = _names("b big code em font i nobr s small strike strong tt u")
#: They stand in a paragraph and are passed over by the end of it.
INLINE: Final = FORMATTING | _names("a span label abbr cite q sub sup mark time kbd samp var")
#: There is one of each at most, wherever its tags are.
IGNORED: Final = _names("html head body")
#: They hold nothing.
VOID: Final = _names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param "
    "source track wbr"
)
#: They hold text, whatever it looks like.
RAW_TEXT: Final = _names("script style textarea title xmp iframe noembed noframes")
#: They end a drawing or a formula that is open.
BREAKOUT: Final = _names(
    "b big blockquote br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 hr i img li listing "
    "menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
#: What drawings mostly consist of.
SVG_LEAVES: Final = _names(
    "path g rect circle line polygon polyline ellipse use defs symbol stop lineargradient "
    "radialgradient clippath mask pattern marker tspan text image filter animate animatetransform "
    "style"
)
#: They are nothing outside of a table.
IN_TABLE: Final = _names("caption tbody thead tfoot tr td th colgroup")
_BLOCKS: Final = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure "
    "footer header hgroup listing main menu nav ol pre search section summary ul h1 h2 h3 h4 h5 h6"
)
#: End tags do not look past these.
_SCOPE: Final = _names(
    "applet caption html table td th marquee object template select svg math mi mo mn ms mtext "
    "annotation-xml foreignobject desc title"
)
#: Formatting elements on both sides of these do not know each other.
MARKERS: Final = _SCOPE
#: An end tag of another kind of element does not look past these.
SPECIAL: Final = (
    _BLOCKS
    | _SCOPE
    | IN_TABLE
    | RAW_TEXT
    | VOID
    | _names("p li dd dt button form frameset iframe noscript optgroup option plaintext")
)


class Closing(NamedTuple):
    """Which open elements the start of one ends: ``targets``, unless one of ``stops`` is inside.

    With ``passes`` only those may be inside. Of several targets the outermost counts where
    ``all`` is set, else the innermost. With ``root`` they have to be in one: a cell outside of a
    table is none.
    """

    targets: frozenset[bytes]
    stops: frozenset[bytes] = frozenset()
    passes: frozenset[bytes] | None = None
    all: bool = False
    root: bytes = b""


_PAST: Final = SPECIAL - _names("address div p")
#: What stands between a part of a table and a table that it is no part of.
TABLES: Final = _names("table template svg math select")
_GROUPS: Final = _names("tbody thead tfoot tr td th")
_NOTHING: Final[frozenset[bytes]] = frozenset()
_LI, _ITEMS = _names("li"), _names("dt dd")
_CELL: Final = Closing(_names("td th"), TABLES, root=b"table")
_GROUP: Final = Closing(_GROUPS, TABLES, all=True, root=b"table")
#: By the element that starts.
CLOSED_BY: Final = {
    b"p": Closing(_names("p"), passes=INLINE),
    b"li": Closing(_LI, _PAST - _LI),
    b"dt": Closing(_ITEMS, _PAST - _ITEMS),
    b"dd": Closing(_ITEMS, _PAST - _ITEMS),
    b"option": Closing(_names("option"), passes=_NOTHING),
    b"optgroup": Closing(_names("option optgroup"), passes=_names("option"), all=True),
    b"a": Closing(_names("a"), passes=_NOTHING),
    b"nobr": Closing(_names("nobr"), passes=_NOTHING),
    b"td": _CELL,
    b"th": _CELL,
    b"tr": Closing(_names("tr td th"), TABLES, all=True, root=b"table"),
    b"tbody": _GROUP,
    b"thead": _GROUP,
    b"tfoot": _GROUP,
}
_LISTS: Final = _SCOPE | _names("ul ol")
_ROWS: Final = _SCOPE - _names("td th")


def between_is_sound(name: bytes, between: Sequence[bytes]) -> bool:
    """Whether an end tag surely closes its element and those that were opened after it.

    >>> between_is_sound(b"div", [b"span", b"p"]), between_is_sound(b"div", [b"table", b"td"])
    (True, False)
    >>> between_is_sound(b"span", [b"b"]), between_is_sound(b"span", [b"div"])
    (True, False)
    """
    if name in _BLOCKS or name in {b"dd", b"dt", b"button"}:
        return _SCOPE.isdisjoint(between)
    if name == b"p":
        return INLINE.issuperset(between)
    if name == b"li":
        return _LISTS.isdisjoint(between)
    if name == b"table":
        return TABLES.isdisjoint(between)
    if name in IN_TABLE:
        return _ROWS.isdisjoint(between)
    if name in FORMATTING or name == b"a":
        return False
    return name not in SPECIAL and SPECIAL.isdisjoint(between)
