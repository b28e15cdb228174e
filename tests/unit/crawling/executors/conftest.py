"""Spiders of the samples, and a way to read a page with any spider."""

import pytest

from tests.kit.cli import read_folder
from tests.kit.config import adopt, unchecked
from tests.unit.crawling.executors.reading import SAMPLE, Reader, page


@pytest.fixture
def read():
    return Reader()


@pytest.fixture(scope="session")
def samples():
    tree = adopt("r", read_folder(SAMPLE), None, {}, unchecked).tree
    return tree.bizs["default"]["garden"].spiders


@pytest.fixture(scope="session")
def sample_page():
    def load(name, url="https://garden.example/x", content_type=""):
        return page((SAMPLE / "pages" / name).read_bytes(), url, content_type)

    return load
