import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.extract.encoding import decode

WORD = "naïve Привет"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\xef\xbb\xbf" + WORD.encode(), "text/html; charset=latin-1"),
        (b"\xff\xfe" + WORD.encode("utf-16-le"), ""),
        (b"\xfe\xff" + WORD.encode("utf-16-be"), ""),
        (b"\xff\xfe\0\0" + WORD.encode("utf-32-le"), ""),
        (WORD.encode(), ""),
        (WORD.encode(), 'text/html; charset="UTF-8"'),
        (WORD.encode("utf-16-le"), "text/html;charset=utf-16le"),
        (WORD.encode("gb18030"), "text/html; charset=gb2312"),
    ],
)
def test_encoding_is_told_by_mark_then_header(body, content_type):
    assert decode(body, content_type) == WORD


@pytest.mark.parametrize(
    "declaration",
    [
        '<meta charset="{}">',
        "<META http-equiv=x content='text/html; charset={}'>",
        "<?xml version='1.0' encoding='{}'?>",
    ],
)
def test_encoding_is_told_by_the_page(declaration):
    text = declaration.format("koi8-r") + "Привет"

    assert decode(text.encode("koi8-r"), "text/html; charset=nonsense") == text


def test_encoding_is_detected_where_nothing_tells_it():
    assert "é" in decode("<p>café société, déjà vu".encode("cp1252"), "text/html")


@pytest.mark.parametrize(
    "name", ["zlib", "hex", "idna", "punycode", "utf-7", "unicode_escape", "rot13", "x" * 40]
)
def test_labels_that_are_no_encoding_are_not_followed(name):
    assert decode(b"abc+AAA-", f"text/html; charset={name}") == "abc+AAA-"


def test_a_page_that_was_read_as_ascii_is_not_utf_16_whatever_it_says():
    assert decode(b"<meta charset=utf-16>abc", "") == "<meta charset=utf-16>abc"


@given(st.binary(), st.text(max_size=40))
def test_any_bytes_become_text(body, content_type):
    decode(body, content_type).encode()
