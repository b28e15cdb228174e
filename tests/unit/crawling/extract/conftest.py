from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.kit.config import Rule
from tests.kit.extract import RuleExtractor
from tests.kit.requests import Page

PAGES = Path(__file__).parent / "pages"
TYPES = {".html": "text/html", ".xml": "application/xml", ".json": "application/json"}

Extract = Callable[..., list[dict[str, object]]]


def now() -> datetime:
    return datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="session")
def extract() -> Extract:
    """Applies a rule, written as in a biz document, to a saved page or to bytes."""
    return applying(RuleExtractor(now))


@pytest.fixture(scope="session")
def extract_in_haste() -> Extract:
    """Does the same where a page may cost two tenths of a second."""
    return applying(RuleExtractor(now, cpu_seconds=0.2))


def applying(extractor: RuleExtractor) -> Extract:
    def run(rule: dict, body: bytes | str, content_type: str | None = None) -> list[dict]:
        if isinstance(body, str):
            path = PAGES / body
            content_type = content_type or TYPES[path.suffix]
            body = path.read_bytes()
        page = Page(
            url="https://shop.example/a/b",
            status=200,
            headers={"content-type": content_type or ""},
            body=body,
        )
        return extractor.extract(msgspec.convert(rule, Rule), page)

    return run
