"""A start is looked at before anything of it is kept."""

from datetime import UTC, datetime

import msgspec

from tests.kit.config import Biz
from tests.kit.spiders import Start, refused


def test_a_start_is_admitted_at_both_of_its_ends_and_with_its_places_open():
    biz = _biz()
    long = "x" * 7_990

    assert refused(biz, "page", Start(pattern="https://a.example/{x}/{y}")) == []
    ends = Start(pattern="https://a.example/{x}", values={"x": ("a", long)})
    assert [problem.field for problem in refused(biz, "page", ends)] == ["start.pattern"]
    urls = Start(urls=("https://a.example/", "ftp://a.example/"))
    assert [problem.field for problem in refused(biz, "page", urls)] == ["start.urls[1]"]
    assert [problem.field for problem in refused(biz, "none", urls)][:1] == ["rule"]


def _biz() -> Biz:
    generation = {"starts_at": datetime(2026, 1, 1, tzinfo=UTC), "nodes": ["main"]}
    document = {
        "generations": [{**generation, "databases": ["db"]}],
        "rules": {"page": {"fields": {"title": {"css": "title"}}}},
    }
    return msgspec.convert(document, Biz)
