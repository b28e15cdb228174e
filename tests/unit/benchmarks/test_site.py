import asyncio

from benchmarks.site import distinct
from benchmarks.site_pages import LARGEST_BYTES, bodies, chosen, with_index
from benchmarks.site_server import NOT_FOUND, Connection, answers_in, path_of


class Wire(asyncio.Transport):
    """A transport that records what a connection writes."""

    def __init__(self):
        super().__init__()
        self.written = b""

    def write(self, data):
        self.written += data


def connection(answers):
    found, wire = Connection(answers), Wire()
    found.connection_made(wire)
    return found, wire


def test_addresses_differ_although_pages_repeat():
    urls = distinct("http://site/", ("a.html", "b.html"), 5)

    assert len(set(urls)) == 5
    assert urls[4] == "http://site/a.html?v=2"


def test_a_page_is_a_modules_documentation_with_headings():
    ((name, text),) = bodies(["textwrap"])

    assert name == "textwrap"
    assert text.count("<h1>") == 1
    assert "<h2>" in text
    assert "dedent" in text


def test_what_cannot_be_imported_here_has_no_page():
    assert list(bodies(["no_such_module_anywhere"])) == []


def test_the_longest_pages_that_are_not_too_long_are_taken():
    documents = {"c": "xx", "a": "xxx", "b": "x", "huge": "x" * (LARGEST_BYTES + 1)}

    assert chosen(documents.items(), 2) == {"a": "xxx", "c": "xx"}


def test_every_page_links_to_all():
    pages = with_index({"a": "<body>one</body>", "b": "<body>two</body>"})

    assert pages["b"].count("<a href=") == 2
    assert pages["b"].endswith("two</body>")


def test_a_path_is_read_without_its_query():
    assert path_of(b"GET /x.html?v=3 HTTP/1.1\r\nHost: a") == b"/x.html"
    assert path_of(b"nonsense") == b""


def test_a_page_is_answered_from_memory(tmp_path):
    (tmp_path / "x.html").write_bytes(b"<p>hello")
    (tmp_path / "notes.txt").write_bytes(b"no page")

    answers = answers_in(tmp_path)

    assert list(answers) == [b"/x.html"]
    head, _, body = answers[b"/x.html"].partition(b"\r\n\r\n")
    assert body == b"<p>hello"
    assert b"Content-Length: 8" in head


def test_requests_that_come_in_pieces_or_together_are_each_answered_once():
    served, wire = connection({b"/a": b"A", b"/b": b"B"})

    for piece in (
        b"GET /a HT",
        b"TP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n",
        b"\r\n",
    ):
        served.data_received(piece)

    assert wire.written == b"ABA"


def test_what_the_site_does_not_have_is_not_found():
    served, wire = connection({})

    served.data_received(b"GET /robots.txt HTTP/1.1\r\n\r\n")

    assert wire.written == NOT_FOUND


def test_a_far_site_answers_later_and_in_order():
    async def crawl() -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()
        served, wire = Connection({b"/a": b"A", b"/b": b"B"}, delay=0.05), Wire()
        served.connection_made(wire)
        began = loop.time()
        done = loop.create_future()
        wire.write = lambda data: (Wire.write(wire, data), data == b"B" and done.set_result(None))
        served.data_received(b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n")
        at_once = wire.written
        await asyncio.wait_for(done, 60)
        assert at_once == b""
        return wire.written, loop.time() - began

    written, took = asyncio.run(crawl())

    assert written == b"AB"
    assert took >= 0.05
