"""JSON and NDJSON: cut up or left to the rules, the records are the same."""

import gzip
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import ExtractError
from tests.unit.crawling.executors.reading import Reader, page, spider

NAMES = st.text("abcxyz", min_size=1, max_size=5)
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@given(records=st.lists(OBJECTS, max_size=20), indent=st.sampled_from([None, 2]))
def test_a_document_that_is_cut_up_reads_as_one_that_is_not(records, indent):
    body = json.dumps({"data": {"list": records}}, indent=indent)
    read = Reader()

    cut = read(spider("json", records="$.data['list'][*]"), page(body))
    whole = read(spider("json", records="$.data.list[?@.x != 'no such thing']"), page(body))

    assert cut.records == records
    assert whole.records == records


@given(records=st.lists(OBJECTS, max_size=20), end=st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_a_line_for_each_object_reads_as_an_array_of_them(records, end):
    lines = end.join(json.dumps(record) for record in records)

    got = Reader()(spider("json"), page(lines, "https://garden.example/a.ndjson"))

    assert got.records == records


@pytest.mark.parametrize(
    ("body", "url", "content_type"),
    [
        (b'\xef\xbb\xbf{"a":1}\n{"a":2}', "https://garden.example/x.jsonl?v=1", ""),
        (b'{"a":1}\n{"a":2}\n', "https://garden.example/x", "application/x-ndjson; charset=utf-8"),
        (gzip.compress(b'{"a":1}\n{"a":2}\n', mtime=0), "https://garden.example/x.ndjson.gz", ""),
        (b'[{"a":1},{"a":2}]', "https://garden.example/x", "application/json"),
        (gzip.compress(b'[{"a":1},{"a":2}]', mtime=0), "https://garden.example/x.json.gz", ""),
        ('[{"a":1},{"a":2}]'.encode("utf-16"), "https://garden.example/x", ""),
        (b'\xef\xbb\xbf[{"a":1},{"a":2}]', "https://garden.example/x", ""),
        (b'{"x":{"a":1},"y":{"a":2}}', "https://garden.example/x", ""),
    ],
)
def test_how_it_is_written_is_seen(read, body, url, content_type):
    assert read(spider("json"), page(body, url, content_type)).records == [{"a": 1}, {"a": 2}]


def test_a_path_that_leads_nowhere_gives_nothing(read):
    for body in ("{}", '{"data": []}', '{"data": {"items": 5}}', '"text"'):
        assert read(spider("json", records="$.data.items[*]"), page(body)).found == []


def test_the_place_of_a_bad_record_is_counted_over_the_whole_document(read):
    body = json.dumps([{"n": n} for n in range(450)] + [{"n": "many"}, {"n": 451}])
    fields = {"n": {"json": "$.n", "type": "integer"}}

    with pytest.raises(ExtractError, match="'many'") as caught:
        read(spider("json", fields=fields), page(body))
    got = read(spider("json", fields=fields, bad_records="skip"), page(body))

    assert caught.value.field == "records[450].n"
    assert len(got.records) == 451
    assert [one.place for one in got.skipped] == ["records[450].n"]


def test_a_record_that_is_no_object_needs_fields(read):
    with pytest.raises(ExtractError, match=r"^records\[1\]: "):
        read(spider("json"), page('[{"a":1}, 2]'))
    with pytest.raises(ExtractError, match=r"^records\[0\]: "):
        read(spider("json", records="$..n"), page('[{"n":1}]'))

    got = read(spider("json", fields={"n": {"json": "$", "type": "integer"}}), page("[1, 2]"))
    assert got.records == [{"n": 1}, {"n": 2}]


def test_the_next_page_is_a_link_or_a_cursor_until_there_is_none(read):
    url = "https://api.garden.example/v1/list?size=2"
    by_link = spider("json", records="$.items[*]", next_page="$.next")
    by_cursor = spider("json", records="$.items[*]", cursor="$.next", cursor_parameter="after")

    def urls(by, following, meta=None):
        body = msgspec.json.encode({"items": [], "next": following})
        return read(by, page(body, url), meta=meta).urls

    assert urls(by_link, "/v1/list?page=2") == ["https://api.garden.example/v1/list?page=2"]
    assert urls(by_cursor, "a&b") == [f"{url}&after=a%26b"]
    assert urls(by_cursor, 17) == [f"{url}&after=17"]
    for by in (by_link, by_cursor):
        assert urls(by, None) == urls(by, "") == []
        assert urls(by, "x", {"list_page": 100}) == []
    assert urls(by_link, url) == []  # it would be this page again
    assert urls(by_cursor, False) == []


def test_a_cursor_that_repeats_itself_ends_the_list(read):
    by = spider("json", records="$.items[*]", cursor="$.next", cursor_parameter="after")
    url = "https://api.garden.example/v1/list?after=x"

    assert read(by, page('{"items": [], "next": "x"}', url)).urls == []
