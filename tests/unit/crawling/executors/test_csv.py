"""Tables: encodings, delimiters, headers, types, and rows that are none."""

import csv
import gzip
import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import ExtractError
from tests.unit.crawling.executors.reading import Reader, page, spider

CELLS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\x00"))


@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=20),
    delimiter=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_what_the_csv_module_writes_is_read_back(rows, delimiter, encoding):
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(
        [["a", "b", "c"], *rows]
    )
    reported = {"delimiter": delimiter, "encoding": encoding.removesuffix("-sig")}

    got = Reader()(spider("csv", **reported), page(written.getvalue().encode(encoding)))

    assert got.records == [dict(zip("abc", row, strict=True)) for row in rows]


@pytest.mark.parametrize(
    ("body", "content_type", "parameters"),
    [
        ("é,b\n1,2\n".encode(), "", {}),
        ("é,b\n1,2\n".encode("latin-1"), "", {}),
        ("é,b\n1,2\n".encode("latin-1"), "text/csv; charset=ISO-8859-1", {}),
        ("é,b\n1,2\n".encode("cp850"), "text/csv; charset=utf-8", {"encoding": "cp850"}),
        ("é,b\n1,2\n".encode("utf-8-sig"), "text/csv; charset=latin-1", {"encoding": "cp850"}),
        ("é,b\n1,2\n".encode("utf-16-le"), "", {}),
        ("é,b\n1,2\n".encode("utf-16-be"), "", {}),
        (gzip.compress("é,b\n1,2\n".encode(), mtime=0), "application/gzip", {}),
        ("é;b\r\n1;2\r\n".encode(), "", {}),
        ("é\tb\r1\t2\r".encode(), "", {}),
        ("é|b\n1|2".encode(), "", {}),
    ],
)
def test_encoding_delimiter_and_line_ends_are_found(read, body, content_type, parameters):
    file = page(body, content_type=content_type)

    assert read(spider("csv", **parameters), file).records == [{"é": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("parameters", "text", "expected"),
    [
        ({"header": False}, "1,2\n", [{"column_1": "1", "column_2": "2"}]),
        ({"header": False, "names": ["a", "b"]}, "1,2\n", [{"a": "1", "b": "2"}]),
        ({"names": ["a", "b"]}, "x,y\n1,2\n", [{"a": "1", "b": "2"}]),
        ({"skip": 2}, 'a "title\n\nx\n1\n', [{"x": "1"}]),
        ({"quote": None}, 'x,y\n"1,2"\n', [{"x": '"1', "y": '2"'}]),
        ({"quote": "'"}, "x,y\n'1,2',3\n", [{"x": "1,2", "y": "3"}]),
        ({}, "a,a,,\n1,2,,\n", [{"a": "1", "a_2": "2"}]),
        ({}, "a,a,a_2\n1,2,3\n", [{"a": "1", "a_3": "2", "a_2": "3"}]),
        ({}, f"a,b\n{'x' * 900_000},2\n", [{"a": "x" * 900_000, "b": "2"}]),
        ({}, "\n\na\n\n1\n\n", [{"a": "1"}]),
        (
            {"header": False, "columns": {"b": {"index": 1, "type": "integer"}}},
            "x,-7\n",
            [{"b": -7}],
        ),
        (
            {"columns": {"b": {"header": "B", "type": "boolean"}}},
            "A,B\n1,Yes\n2,\n",
            [{"b": True}, {"b": None}],
        ),
        ({"columns": {"b": {"type": "integer", "default": 0}}}, "a,b\n1,\n", [{"b": 0}]),
        ({}, "", []),
        ({"names": ["a"]}, "", []),
    ],
)
def test_headers_names_and_columns(read, parameters, text, expected):
    assert read(spider("csv", **parameters), page(text)).records == expected


@pytest.mark.parametrize(
    ("decimal", "cell", "value"),
    [
        (".", "1,234.50", 1234.5),
        (".", "1 234.5", 1234.5),
        (".", "-3e2", -300.0),
        (".", "1,5", None),
        (".", "1.234.567", None),
        (".", "1e999", None),
        (".", "NaN", None),
        (".", "0x10", None),
        (",", "1.234,50", 1234.5),
        (",", "12,5", 12.5),
        (",", "1'234,5", 1234.5),
        (",", "12.5", None),
    ],
)
def test_numbers_have_the_decimal_mark_that_the_spider_says(read, decimal, cell, value):
    by = spider(
        "csv", decimal=decimal, bad_rows="skip", delimiter="|", columns={"n": {"type": "number"}}
    )

    got = read(by, page(f"n|x\n{cell}|1\n"))

    assert [record["n"] for record in got.records] == ([] if value is None else [value])
    assert len(got.skipped) == (value is None)


def test_an_integer_fits_what_the_store_holds(read):
    by = spider("csv", bad_rows="skip", delimiter=";", columns={"n": {"type": "integer"}})

    got = read(by, page("n\n9223372036854775807\n9223372036854775808\n1.0\n1,000\n"))

    assert [record["n"] for record in got.records] == [9223372036854775807, 1000]
    assert [one.place for one in got.skipped] == ["line 3.n", "line 4.n"]


def test_a_bad_row_fails_the_page_unless_it_may_be_left_out(read):
    file = page('a,b\n1,2\n"x\ny",3\n4\n5,6,7\n8,"9"x\n10,11\n')

    with pytest.raises(ExtractError, match=r"^line 5: .* 1 .* 2 "):
        read(spider("csv"), file)
    got = read(spider("csv", bad_rows="skip"), file)

    assert [record["a"] for record in got.records] == ["1", "x\ny", "10"]
    assert [one.place for one in got.skipped] == ["line 5", "line 6", "line 7"]


def test_a_column_that_the_file_does_not_have_is_named(read):
    with pytest.raises(ExtractError, match=r"'Pries'.* Preis, Name") as caught:
        read(spider("csv", columns={"price": {"header": "Pries"}}), page("Name,Preis\na,1\n"))

    assert caught.value.field == "columns.price"


def test_a_cell_may_lead_to_a_page(read):
    got = read(
        spider("csv", link={"field": "url", "rule": "product"}),
        page("sku,url\n1,/p/1\n2,\n3,mailto:x\n"),
    )

    assert [(link.url, link.rule, link.depth) for link in got.links] == [
        ("https://garden.example/p/1", "product", 1)
    ]


def test_a_file_of_megabytes_takes_no_more_memory_than_a_few_of_its_rows(read):
    reported = "as long as a product's text is " * 20
    rows = "".join(f'{n},"Product, {n}",{n}.50,{reported}\n' for n in range(8_000))
    file = page("id,name,price,text\n" + rows)
    by = spider("csv", columns={"id": {"type": "integer"}, "name": {}, "price": {"type": "number"}})
    tracemalloc.start()
    try:
        count = 0
        for record in read.stream(by, file):
            count += 1
            last = record
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (count, last) == (8_000, {"id": 7_999, "name": "Product, 7999", "price": 7999.5})
    assert len(file.body) > 5_000_000
    assert peak < 2_000_000
