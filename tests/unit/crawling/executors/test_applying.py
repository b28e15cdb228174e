"""Limits on what an executor may return and on what it may cost, whoever wrote it."""

from time import thread_time

import pytest

from tests.kit.executors import (
    SKIPPED_REPORTED,
    Context,
    Executor,
    NoParameters,
    PageBounds,
    Registry,
    starts_of,
)
from tests.kit.kernel import ExtractError
from tests.kit.requests import Link, Skipped
from tests.unit.crawling.executors.reading import NOW, Reader, page, spider


class Scripted(Executor[NoParameters]):
    """Gives what a test says."""

    name = "scripted"
    script = staticmethod(lambda context: iter(()))
    made = 0

    def __init__(self, parameters, rules):
        super().__init__(parameters, rules)
        Scripted.made += 1

    def read(self, page, context):
        return self.script(context)


class Only(Registry):
    def find(self, name):
        return Scripted if name == "scripted" else super().find(name)


@pytest.fixture
def run(monkeypatch):
    def go(script, **options):
        monkeypatch.setattr(Scripted, "script", staticmethod(script))
        return Reader(Only(installed=False), **options)(spider("scripted"), page("x"), rule="it")

    return go


def test_links_come_once_each(run):
    link = Link(url="https://a.example/", rule="p")

    got = run(lambda _: iter([link, {"a": 1}, link, Link(url=link.url, rule="q")]))

    assert [(one.url, one.rule) for one in got.links] == [(link.url, "p"), (link.url, "q")]
    assert got.records == [{"a": 1}]


@pytest.mark.parametrize(
    ("bounds", "item", "message"),
    [
        (PageBounds(records=10), lambda n: {"n": n}, "10 records"),
        (PageBounds(links=10), lambda n: Link(url=f"https://a.example/{n}", rule="p"), "10 links"),
        (PageBounds(skipped=10), lambda n: Skipped(str(n), "bad"), "10 things"),
    ],
)
def test_an_executor_may_not_give_without_end(run, bounds, item, message):
    with pytest.raises(ExtractError, match=message):
        run(lambda _: map(item, range(11)), bounds=bounds)

    assert len(run(lambda _: map(item, range(10)), bounds=bounds).found) == 10


def test_what_is_left_out_is_reported_so_often_and_then_counted(run):
    got = run(lambda _: (Skipped(f"line {n}", "bad") for n in range(150)))

    assert len(got.skipped) == SKIPPED_REPORTED + 1
    assert str(got.skipped[-1]).startswith("page: 50 ")


def test_a_link_that_lies_too_deep_is_left_out(run):
    got = run(lambda _: iter([Link(url="https://a.example/", rule="p", depth=101)]))

    assert (got.links, len(got.skipped)) == ([], 1)


def test_an_executor_that_fails_costs_its_page_only(run):
    with pytest.raises(ExtractError) as caught:
        run(lambda _: (1 / n for n in (1, 0)))
    assert caught.value.field == "executor scripted"
    assert "gave float" in str(caught.value)

    def broken(_):
        yield {"a": 1}
        raise KeyError("b")

    with pytest.raises(ExtractError, match="scripted: KeyError: 'b'"):
        run(broken)


def test_nothing_passes_for_the_end(run):
    with pytest.raises(ExtractError, match="gave NoneType"):
        run(lambda _: iter([{"a": 1}, None, {"a": 2}]))


def burn(seconds):
    until = thread_time() + seconds
    while thread_time() < until:
        pass


def test_a_page_may_take_so_much_processor_time_and_no_more(run):
    def slow(context):
        for n in range(100):
            burn(0.02)
            context.tick()
            yield {"n": n}

    with pytest.raises(ExtractError, match=r" 0\.1 CPU seconds"):
        run(slow, bounds=PageBounds(cpu_seconds=0.1))


def test_what_is_done_with_records_does_not_count_as_reading(monkeypatch):
    monkeypatch.setattr(Scripted, "script", staticmethod(lambda _: ({"n": n} for n in range(5))))
    reader = Reader(Only(installed=False), bounds=PageBounds(cpu_seconds=0.1))
    taken = 0

    for _ in reader.stream(spider("scripted"), page("x")):
        burn(0.05)
        taken += 1

    assert taken == 5


def test_a_page_that_gives_nothing_for_long_is_given_up(run):
    def silent(context):
        while True:
            context.tick()
            yield from ()

    with pytest.raises(ExtractError, match=r"nothing .* 0\.05 CPU"):
        run(silent, bounds=PageBounds(silent_seconds=0.05))


def test_an_executor_is_constructed_once_for_each_version_of_a_spider(monkeypatch):
    monkeypatch.setattr(Scripted, "made", 0)
    reader = Reader(Only(installed=False), kept=2)
    one, same, other = (
        spider("scripted"),
        spider("scripted"),
        spider("detail", fields={"a": {"css": "a"}}),
    )

    for each in (one, same, other, one):
        reader.executors.executor(each)
    assert Scripted.made == 1

    reader.executors.executor(spider("feed"))
    reader.executors.executor(spider("url_list", rule="p"))
    reader.executors.executor(same)
    assert Scripted.made == 2  # two were used since


def test_the_context_says_what_the_request_was(monkeypatch):
    seen = []

    def look(context):
        seen.append((context.url, context.rule, context.depth, context.meta, context.now))
        yield context.link("b", "p")

    monkeypatch.setattr(Scripted, "script", staticmethod(look))
    reader = Reader(Only(installed=False))

    [link] = reader(
        spider("scripted"), page("x", "https://a.example/a/"), rule="it", depth=4, meta={"k": 1}
    ).links

    assert seen == [("https://a.example/a/", "it", 4, {"k": 1}, NOW)]
    assert (link.url, link.rule, link.depth, link.meta) == ("https://a.example/a/b", "p", 5, {})


def test_a_context_says_none_of_what_it_is_not_given():
    context = Context("https://garden.example/", "it", meta=None, now=None)

    assert context.meta == {}
    assert context.now.tzinfo is not None
    assert {context: "an executor may keep things by it"}


def test_a_wrong_spider_is_an_error_of_its_page():
    reader = Reader()

    with pytest.raises(ExtractError, match=r"^parameters\.rule: "):
        reader(spider("url_list"), page("x"))
    with pytest.raises(ExtractError, match="'nothing'"):
        reader(spider("nothing"), page("x"))


def test_a_spider_says_where_its_crawl_begins(samples):
    assert starts_of(samples["listing"]) == ("https://garden.example/tools?page=1",)
    assert starts_of(samples["news"]) == ()


def test_a_reading_that_is_given_up_closes_its_executor(monkeypatch):
    closed = []

    def script(_):
        try:
            yield {"a": 1}
            yield {"a": 2}
        finally:
            closed.append(True)

    monkeypatch.setattr(Scripted, "script", staticmethod(script))
    stream = Reader(Only(installed=False)).stream(spider("scripted"), page("x"))

    next(stream)
    stream.close()

    assert closed == [True]
