"""Decode the bytes of a page by the encoding that a browser would take.

In the order of the HTML standard (13.2.3.2): byte order mark, the header's charset, what the page
declares, then detection, which is asked only where the bytes are no UTF-8. Unlike a browser it is
asked of a page, too, that is said to be UTF-8 and is not: servers say so of whatever they have, and
a record of replacement characters is of no use. Labels mean what the
Encoding standard says they do on the web: ``iso-8859-1`` is windows-1252, ``gb2312`` is GB 18030.
For a declaration (13.2.3.3) the standard reads the first 1,024 bytes, and changes its mind when the
parser meets a later ``<meta>``; here one scan reaches as far as a head reasonably does.

The detector is uchardet, by resiliparse. Of 32 short pages, in 14 languages and their encodings
(tests/unit/crawling/extract/test_encoding.py), it is right about 28, at 0.08 ms of CPU a page, and
what is done here about 29. charset-normalizer, alone or in UnicodeDammit, is right about 25, at
0.65 ms.
"""

import codecs
import re
from functools import lru_cache
from typing import Final

WITHIN: Final = 16_384  #: How far into a page a declaration counts.

_XML: Final = re.compile(
    rb"<\?xml[\t\n\f\r ][^>]{0,400}?encoding[\t\n\f\r ]*=[\t\n\f\r ]*[\"']([^\"'>]{1,60})[\"']"
)
#: What the scan stops at: a comment, a tag with attributes, or another construct up to its ``>``.
_CONSTRUCT: Final = re.compile(
    rb"<(?:(?P<comment>!--)|(?P<meta>meta)(?=[\t\n\f\r /])|(?P<tag>/?[a-z][^\t\n\f\r >]*)|[!/?])",
    re.IGNORECASE,
)
#: An attribute, or the end of the tag.
_ATTRIBUTE: Final = re.compile(
    rb"[\t\n\f\r /]*(?:(?P<end>>)|(?P<name>[^\t\n\f\r />=]+|=[^\t\n\f\r />=]*)"
    rb"(?:[\t\n\f\r ]*=[\t\n\f\r ]*"
    rb"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\t\n\f\r >]*)))?)"
)
#: The charset in ``content="text/html; charset=..."``.
_IN_CONTENT: Final = re.compile(
    rb"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r ;\"']+))",
    re.IGNORECASE,
)
#: Inside of these a ``<meta>`` is text.
_RAW: Final = frozenset({b"script", b"style", b"title", b"textarea", b"xmp"})


def declared_label(body: bytes) -> str | None:
    """Return the label that the page declares, or None.

    >>> declared_label(b"<!-- <meta charset=koi8-r> --><META content='a; charset=big5' http-equiv="
    ...                b"Content-Type>")
    'big5'
    """
    if body.startswith(b"<\x00?\x00x\x00"):
        return "utf-16le"
    if body.startswith(b"\x00<\x00?\x00x"):
        return "utf-16be"
    head = body[:WITHIN]
    if found := _XML.match(head):
        return _label(found[1])
    lower, at = head.lower(), 0
    while found := _CONSTRUCT.search(head, at):
        if found["comment"]:
            at = _after(head, b"-->", found.start() + 2)
        elif found["meta"] or found["tag"]:
            attributes, at = _attributes(head, found.end())
            if found["meta"]:
                if label := _of_meta(attributes):
                    return label
            elif (name := found["tag"].lower()) in _RAW:
                at = _after(lower, b"</" + name, at)
        else:
            at = _after(head, b">", found.end())
    return None


def _after(head: bytes, end: bytes, at: int) -> int:
    where = head.find(end, at)
    return len(head) if where < 0 else where + len(end)


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """Read the attributes of a tag, the first of each name, and where the tag ends."""
    found: dict[bytes, bytes] = {}
    while attribute := _ATTRIBUTE.match(head, at):
        at = attribute.end()
        if attribute["end"]:
            return found, at
        value = attribute["double"] or attribute["single"] or attribute["bare"] or b""
        found.setdefault(attribute["name"].lower(), value)
    return found, len(head)


def _of_meta(attributes: dict[bytes, bytes]) -> str | None:
    if charset := attributes.get(b"charset"):
        return _label(charset)
    if attributes.get(b"http-equiv", b"").strip().lower() != b"content-type":
        return None
    found = _IN_CONTENT.search(attributes.get(b"content", b""))
    return _label(found[1] or found[2] or found[3] or b"") if found else None


def _label(raw: bytes) -> str | None:
    return raw[:60].decode("ascii", "replace").strip() or None


#: Byte order marks, with Python's names of the encodings.
MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
_DETECTED_WITHIN: Final = 65_536  #: How much of a page is detected on.

#: Python's codecs that hold what the web means, where the mapping names a smaller one.
_WIDER: Final = {
    "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932",
    "big5": "big5hkscs", "iso8859-11": "cp874",
}  # fmt: skip
_MISSING: Final = {  #: Labels of the Encoding standard that the mapping leaves out.
    "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ukrainian": "mac_cyrillic",
    "x-user-defined": "x-user-defined",
}
#: What detection says, where it differs from a label: KOI8-U has all letters of KOI8-R.
_DETECTED: Final = {"koi8-r": "koi8-u", "cp949": "cp949", "mac-cyrillic": "mac_cyrillic"}
#: No encoding of Python's; WHATWG: the upper half stands for itself, in a private area.
_USER_DEFINED: Final = "x-user-defined"
_EAST_ASIAN: Final = ("gb18030", "big5hkscs", "cp932", "euc_jp", "cp949")
_MISFITS: Final = re.compile("[\ufffd\ue000-\uf8ff]+")
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_PRIVATE_AREA: Final = {byte: 0xF700 + byte for byte in range(0x80, 0x100)}


def decode(body: bytes, content_type: str, *, declares: bool = True) -> str:
    r"""Decode a page; what cannot be decoded becomes U+FFFD, nothing raises.

    ``declares`` says whether a declaration inside the page counts (HTML and XML).

    >>> decode("naïve".encode("latin-1"), "text/html; charset=ISO-8859-1")
    'naïve'
    >>> decode(b"<meta charset=windows-1251>\xcf", "")[-1]
    'П'
    """
    for mark, name in MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    charset = CHARSET.search(content_type)
    codec = codec_of(charset[1]) if charset else None
    if codec is None and declares:
        codec = _declared(body)
    if codec not in {None, "utf-8"}:
        return _decoded(body, codec)
    try:
        return body.decode()
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
        beyond_ascii = len(text) - len(body.translate(None, _BEYOND_ASCII))
        # Damaged UTF-8: chance makes ten right bytes to none wrong. Of what is said to be UTF-8 as
        # many right characters as wrong ones are enough.
        if text.count("\ufffd") * (11 if codec is None else 2) <= beyond_ascii:
            return text
        return _decoded(body, _detected(body))


def _decoded(body: bytes, codec: str) -> str:
    if codec == _USER_DEFINED:
        return body.decode("latin-1").translate(_PRIVATE_AREA)
    text = body.decode(codec, "replace")
    # Some of Python's codecs let halves of surrogate pairs through, which nothing can store.
    return text if text.isascii() or codec == "utf-8" else _SURROGATES.sub("\ufffd", text)


def _declared(body: bytes) -> str | None:
    label = declared_label(body)
    codec = None if label is None else codec_of(label)
    if codec is None:
        return None
    if codec.startswith("utf-16") and not body.startswith((b"<\x00", b"\x00<")):
        return "utf-8"  # it was read as ASCII, so it cannot be what it says it is
    return "cp1252" if codec == _USER_DEFINED else codec


def _detected(body: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding

    body = body[:_DETECTED_WITHIN]
    name = detect_encoding(body, html5_compatible=False)
    if not name:
        return "cp1252"
    codec = _DETECTED.get(name) or codec_of(name) or "cp1252"
    if codec not in _EAST_ASIAN or not _misfits(body, codec):
        return codec
    # These overlap, and short texts mislead; the wrong one leaves the common characters.
    return min((codec, *_EAST_ASIAN), key=lambda one: _misfits(body, one))


def _misfits(body: bytes, codec: str) -> int:
    """Count the characters that no page has: replacements, and those of private areas."""
    return sum(map(len, _MISFITS.findall(body.decode(codec, "replace"))))


@lru_cache(maxsize=512)
def codec_of(label: str) -> str | None:
    """Return Python's name for what a label means on the web, or None for what is no label.

    >>> codec_of("x-sjis"), codec_of("ISO-8859-1"), codec_of("zlib"), codec_of("utf-7")
    ('cp932', 'cp1252', None, None)
    """
    label = label.strip(" \t\n\f\r").lower()
    if label in {"utf-8", "utf8"}:
        return "utf-8"
    if label in _MISSING:
        return _MISSING[label]
    from resiliparse.parse.encoding import map_encoding_to_html5

    codec: str | None = map_encoding_to_html5(label, fallback_utf8=False)
    return None if codec is None else _WIDER.get(codec, codec)
