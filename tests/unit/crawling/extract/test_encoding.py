# ruff: noqa: RUF001  what looks like Latin is not
import re
import time

import charset_normalizer
import pytest
import webencodings
from hypothesis import given
from hypothesis import strategies as st
from resiliparse.parse.encoding import detect_encoding

from tests.kit.examples import examples
from tests.kit.extract import WITHIN, codec_of, declared_label, decode, encoding

WORD = "naïve Привет"

#: Sentences as pages have them, and what pages in that language have been written in.
TEXTS = {
    "ru": (
        "Москва - столица России, город федерального значения. Население города растёт.",
        ["windows-1251", "koi8-r", "iso-8859-5", "ibm866", "x-mac-cyrillic", "utf-8"],
    ),
    "uk": (
        "Київ - столиця та найбільше місто України, розташований у середній течії Дніпра.",
        ["windows-1251", "koi8-u"],
    ),
    "el": (
        "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας και η πολυπληθέστερη πόλη της χώρας.",
        ["windows-1253", "iso-8859-7"],
    ),
    "fr": (
        "Le château était fermé à l'été, où les élèves français étudiaient déjà la leçon.",
        ["windows-1252", "iso-8859-1", "iso-8859-15"],
    ),
    "de": (
        "Die Straße führt über Brücken nach München; größere Häuser stehen schön an den Flüssen.",
        ["windows-1252", "iso-8859-1", "macintosh"],
    ),
    "pl": (
        "Zażółć gęślą jaźń. Łódź jest miastem w środkowej Polsce, położonym nad rzekami.",
        ["windows-1250", "iso-8859-2"],
    ),
    "tr": (
        "İstanbul, Türkiye'nin en kalabalık şehridir. Güneş doğarken çocuklar okula gidiyor.",
        ["windows-1254", "iso-8859-9"],
    ),
    "he": ("ירושלים היא עיר הבירה של מדינת ישראל והעיר הגדולה ביותר בישראל.", ["windows-1255"]),
    "ar": ("القاهرة هي عاصمة جمهورية مصر العربية وأكبر وأهم مدنها على الإطلاق.", ["windows-1256"]),
    "ja": (
        "東京は日本の首都であり、世界最大級の都市です。カタカナもあります。",
        ["shift_jis", "euc-jp", "iso-2022-jp", "utf-16le"],
    ),
    "zh": ("北京是中华人民共和国的首都，也是全国的政治、文化中心。", ["gb2312", "gbk", "gb18030"]),
    "zht": ("臺北市是中華民國的首都，也是臺灣的政治、文化中心。", ["big5"]),
    "ko": ("서울은 대한민국의 수도이자 최대 도시이다. 한강을 끼고 있다.", ["euc-kr"]),
    "th": ("กรุงเทพมหานครเป็นเมืองหลวงและนครที่มีประชากรมากที่สุด", ["windows-874", "tis-620"]),
}
PAGES = [(text, label) for text, labels in TEXTS.values() for label in labels]
NAMES = [f"{language} {label}" for language, (_, labels) in TEXTS.items() for label in labels]
#: Those of which nothing can be said without being told, and what is taken for another.
UNDETECTABLE = {"iso-2022-jp", "utf-16le", "macintosh"}


def raw(text, label):
    """The bytes of a page, as what made it encodes them."""
    if label == "big5":
        return text.encode("big5hkscs")
    return text.encode(codec_of(label))


def page(text, head=""):
    return f"<!doctype html><html><head>{head}<title>{text[:20]}</title></head><p>{text}</p>"


@pytest.mark.parametrize(("text", "label"), PAGES, ids=NAMES)
def test_the_header_reports_the_encoding(text, label):
    body = raw(page(text, "<meta charset=windows-1250>"), label)

    assert text in decode(body, f"text/html; charset={label}")
    assert text in decode(body, f'text/html;Charset = "{label.upper()}"; x=y')


@pytest.mark.parametrize(("text", "label"), PAGES, ids=NAMES)
@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="{}">',
        "<META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset={}'>",
        "<meta content=text/html;charset={} http-equiv=content-type />",
    ],
)
def test_the_page_reports_its_encoding(text, label, head):
    if label.startswith("utf-16"):
        return  # see the tests below: what can be read so is not UTF-16
    whole = page(text, head.format(label))

    assert decode(raw(whole, label), "text/html; charset=nonsense") == whole


@pytest.mark.parametrize(("text", "label"), PAGES, ids=NAMES)
def test_an_xml_declaration_reports_the_encoding(text, label):
    whole = f'<?xml version="1.0" encoding="{label}"?><rss><title>{text}</title></rss>'

    assert decode(raw(whole, label), "application/xml") == whole


@pytest.mark.parametrize(
    ("text", "label"),
    [each for each in PAGES if each[1] not in UNDETECTABLE],
    ids=[name for name in NAMES if name.split()[1] not in UNDETECTABLE],
)
def test_an_encoding_that_nobody_reports_is_detected(text, label):
    whole = page(f"{text} " * 6)

    assert decode(raw(whole, label), "text/html") == whole


def test_detectors_are_right_as_often_as_is_said():
    """Detectors are right as often as their module states, measured on undeclared encodings."""
    pages = [(page(f"{text} " * 6), label) for text, label in PAGES if label != "utf-8"]
    said = [int(number) for number in re.findall(r"(?:Of|about) (\d+)", encoding.__doc__)]

    def right(read) -> int:
        return sum(read(raw(whole, label)) == whole for whole, label in pages)

    def by_uchardet(body: bytes) -> str:
        return body.decode(detect_encoding(body, html5_compatible=False) or "cp1252", "replace")

    found = [right(by_uchardet), right(lambda body: decode(body, "")), right(by_normalizer)]

    assert said == [len(pages), *found]


def by_normalizer(body: bytes) -> str:
    return str(charset_normalizer.from_bytes(body).best())


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\xef\xbb\xbf" + WORD.encode(), "text/html; charset=latin-1"),
        (b"\xff\xfe" + WORD.encode("utf-16-le"), "text/html; charset=utf-8"),
        (b"\xfe\xff" + WORD.encode("utf-16-be"), ""),
        (b"\xff\xfe\0\0" + WORD.encode("utf-32-le"), ""),
        (WORD.encode(), ""),
        (WORD.encode(), 'text/html; charset="UTF-8"'),
        (WORD.encode("utf-16-le"), "text/html;charset=utf-16le"),
        (WORD.encode("utf-16-le"), "text/html;charset=utf-16"),
        (WORD.encode("gb18030"), "text/html; charset=gb2312"),
    ],
)
def test_encoding_is_taken_from_mark_then_header(body, content_type):
    assert decode(body, content_type) == WORD


def test_the_header_goes_before_what_the_page_says():
    body = "<meta charset=utf-8>é".encode("latin-1")

    assert decode(body, "text/html; charset=iso-8859-1") == "<meta charset=utf-8>é"


@pytest.mark.parametrize("label", sorted(webencodings.LABELS))
def test_every_label_of_the_standard_is_known(label):
    """Labels of encodings that no browser decodes are passed over: the text is looked at itself."""
    name = webencodings.LABELS[label]
    codec = codec_of(f" {label.upper()}\n")

    if name == "replacement":
        assert codec is None
    elif name == "x-user-defined":
        assert decode(b"a\x80\xff", f"text/html; charset={label}") == "a\uf780\uf7ff"
    else:
        sample = "".join(map(chr, range(32, 127)))
        reported = webencodings.lookup(label).codec_info.name
        if not reported.startswith(("utf-16", "hz")):
            assert sample.encode(codec).decode(reported) == sample
        for byte in range(0xA0, 0x100):
            one = bytes([byte])
            if len(one.decode(reported, "ignore")) == 1 == len(one.decode(codec, "ignore")):
                assert one.decode(codec) == one.decode(reported)


@pytest.mark.parametrize(
    "name",
    ["zlib", "hex", "idna", "punycode", "utf-7", "unicode_escape", "rot13", "cp037", "x" * 40],
)
def test_labels_that_are_no_encoding_are_not_followed(name):
    assert decode(b"abc+AAA-", f"text/html; charset={name}") == "abc+AAA-"


# ---- what a page declares ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "label"),
    [
        ("<meta charset=a>", "a"),
        ("<meta charset='a'>", "a"),
        ('<meta charset=" a ">', "a"),
        ("<meta\ncharset\n=\na\n>", "a"),
        ("<meta/charset=a/>", "a/"),
        ("<meta x=y charset=a>", "a"),
        ("<meta x='>' charset=a>", "a"),
        ("<meta charset=a charset=b>", "a"),
        ("<meta charset><meta charset=b>", "b"),
        ("<meta http-equiv=refresh content='0; charset=a'>", None),
        ("<meta content='text/html; charset=a'>", None),
        ("<meta name=x content='charset=a'>", None),
        ("<meta http-equiv=content-type content='charset'>", None),
        ("<meta http-equiv=content-type content='charset=\"a\"'>", "a"),
        ("<meta http-equiv=content-type content='text/html;charset=a;x'>", "a"),
        ("<metadata charset=a>", None),
        ("<!-- <meta charset=a> --><meta charset=b>", "b"),
        ("<!-- <meta charset=a>", None),
        ("<!--><meta charset=a>", "a"),
        ("<script>'<meta charset=a>'</script><meta charset=b>", "b"),
        ("<STYLE><meta charset=a></Style><meta charset=b>", "b"),
        ("<title><meta charset=a></title>", None),
        ("<link title='<meta charset=a>'><meta charset=b>", "b"),
        ("<!doctype html><meta charset=a>", "a"),
        ("<a < <meta charset=b>", None),
        ("< <meta charset=b>", "b"),
        ("<meta charset=a", None),
        ("<?xml version='1.0' encoding='a'?>", "a"),
        (" <?xml version='1.0' encoding='a'?>", None),
        ("<?xml version='1.0'?><meta charset=b>", "b"),
        ("x" * 2_000 + "<meta charset=a>", "a"),
        ("x" * WITHIN + "<meta charset=a>", None),
    ],
)
def test_a_declaration_is_found_as_a_browser_finds_it(head, label):
    if head == "<meta charset=a":
        assert declared_label(head.encode()) in {None, "a"}
    else:
        assert declared_label(head.encode()) == label


def test_a_page_that_was_read_as_ascii_is_not_utf_16_whatever_it_says():
    assert decode(b"<meta charset=utf-16>\xc3\xa9", "") == "<meta charset=utf-16>é"


def test_a_page_that_declares_a_private_encoding_is_windows_1252():
    assert decode(b"<meta charset=x-user-defined>\xe9", "") == "<meta charset=x-user-defined>é"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_xml_in_utf_16_needs_no_mark(codec):
    text = '<?xml version="1.0" encoding="utf-16"?><a>é</a>'

    assert decode(text.encode(codec), "application/xml") == text


def test_what_declares_nothing_is_not_searched():
    body = '{"a": "<meta charset=windows-1251>é"}'.encode()

    assert decode(body, "application/json", declares=False) == body.decode()


# ---- broken bytes ------------------------------------------------------------------------------


def test_utf_8_in_which_a_byte_went_wrong_is_still_utf_8():
    body = ("Привет, мир! " * 20).encode().replace(b"\xd0", b"", 1)

    text = decode(body, "text/html")

    assert text.count("\ufffd") == 1
    assert text.count("Привет") == 19


@pytest.mark.parametrize(
    ("head", "content_type"),
    [("", "text/html; charset=utf-8"), ("<meta charset=utf-8>", "text/html")],
)
def test_a_page_that_is_said_to_be_utf_8_and_is_not_is_read_as_what_it_is(head, content_type):
    whole = page(TEXTS["de"][0], head)

    assert decode(raw(whole, "windows-1252"), content_type) == whole
    assert decode(raw(whole, "utf-8"), content_type) == whole


def test_a_wrong_byte_of_a_page_that_is_said_to_be_utf_8_costs_that_byte_alone():
    body = ("Привет, мир! " * 20).encode().replace(b"\xd0", b"", 1)

    assert decode(body, "text/html; charset=utf-8").count("\ufffd") == 1


@pytest.mark.parametrize("wrong", [b"\xff", b"\x92"])
def test_few_letters_beyond_ascii_are_enough_for_a_page_that_is_said_to_be_utf_8(wrong):
    body = b"plain English text " * 60 + "café ".encode() + wrong + b" and more"

    assert "café" in decode(body, "text/html; charset=utf-8")


@given(st.binary(), st.text(max_size=40))
def test_any_bytes_become_text(body, content_type):
    decode(body, content_type).encode()


@examples(3)
@given(st.binary(max_size=200), st.sampled_from(sorted(webencodings.LABELS)))
def test_any_bytes_become_text_in_any_encoding(body, label):
    decode(body, f"text/html; charset={label}").encode()
    decode(f"<meta charset={label}>".encode() + body, "").encode()


@pytest.mark.parametrize(
    "part",
    [
        b"<", b"<!--", b"<meta ", b"<a ", b"<a b=", b'<a b="', b"</", b"<?", b"<!", b"<style>",
        b"<meta charset=", b"<meta http-equiv=content-type content=charset ", b"charset=",
        b"<?xml ", b"<?xml encoding=", b"<script></", b"= ", b"/", b"\xff", b"\xd0", b"a\x00",
    ],
)  # fmt: skip
def test_no_page_takes_long(part):
    body = part * (2_000_000 // len(part))
    started = time.process_time()

    decode(body, "text/html")

    assert time.process_time() - started < 6
