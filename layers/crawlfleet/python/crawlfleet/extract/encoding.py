"""Bytes of a page to text: byte order mark, header, what the page declares, then detection.

BeautifulSoup's ``UnicodeDammit`` is asked only where nothing is declared and the bytes are no
UTF-8, so most pages never load it.
"""

import codecs
import re
from typing import Final

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
_DECLARED: Final = re.compile(
    rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})"
    rb"|<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})",
    re.IGNORECASE,
)
#: How far into a page a declaration is looked for (browsers: 1,024), and how much is detected on.
_DECLARED_WITHIN: Final = 4096
_DETECTED_WITHIN: Final = 65_536

#: What sites call one thing and mean another (WHATWG Encoding Standard).
_MEANT: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "tis-620": "cp874",
}
#: Codecs that are no encodings of text, cost more than linear time, or read escapes.
_REFUSED: Final = frozenset(
    {
        "idna",
        "punycode",
        "unicode-escape",
        "raw-unicode-escape",
        "utf-7",
        "undefined",
        "mbcs",
        "oem",
    }
)


def decode(body: bytes, content_type: str, *, declares: bool = True) -> str:
    r"""The text of a page; what cannot be decoded becomes U+FFFD, nothing raises.

    ``declares`` says whether a declaration inside the page counts (HTML and XML).

    >>> decode("naïve".encode("latin-1"), "text/html; charset=ISO-8859-1")
    'naïve'
    >>> decode(b"<meta charset=windows-1251>\xcf", "")[-1]
    'П'
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    charset = _HEADER.search(content_type)
    codec = _codec(charset[1]) if charset else None
    if codec is None and declares:
        codec = _declared(body)
    if codec is not None:
        return body.decode(codec, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode(_detected(body), "replace")


def _declared(body: bytes) -> str | None:
    found = _DECLARED.search(body, 0, _DECLARED_WITHIN)
    if found is None:
        return None
    name = _codec((found[1] or found[2]).decode("ascii", "replace"))
    # It was read as ASCII, so it cannot be what it says it is.
    return "utf-8" if name is not None and name.startswith(("utf-16", "utf-32")) else name


def _detected(body: bytes) -> str:
    from bs4.dammit import UnicodeDammit

    name = UnicodeDammit(body[:_DETECTED_WITHIN], is_html=True).original_encoding
    return (_codec(name) if name else None) or "cp1252"


def _codec(label: str) -> str | None:
    """Python's name for a label, or None for what is no encoding of text.

    >>> _codec("x-sjis"), _codec("ISO-8859-1"), _codec("zlib"), _codec("punycode")
    (None, 'cp1252', None, None)
    """
    try:
        codec = codecs.lookup(label)
        "".encode(codec.name)  # refuses what turns bytes into bytes
    except (LookupError, ValueError, UnicodeError):
        return None
    return None if codec.name in _REFUSED else _MEANT.get(codec.name, codec.name)
