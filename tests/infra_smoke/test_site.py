"""The site has 500 pages on every Python that Crawlfleet runs on."""

import pytest

from infra.localstack.site import module_names, urls


def test_there_are_more_than_500_pages_and_none_is_a_test():
    names = module_names()

    assert len(names) > 500
    assert len(names) == len(set(names))
    assert {"json", "json.decoder", "email.mime.text", "xml.etree.ElementTree"} <= set(names)
    parts = {part for name in names for part in name.split(".")}
    assert not parts & {"test", "tests", "__main__", "site-packages", "turtledemo"}


def test_modules_are_found_where_they_lie(tmp_path):
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "one.py").touch()
    (tmp_path / "pack" / "inner" / "lost.py").touch()
    (tmp_path / "alone.py").touch()
    (tmp_path / "not-a-module.py").touch()
    (tmp_path / "antigravity.py").touch()

    assert {"alone", "pack", "pack.one"} <= set(module_names(tmp_path))
    assert not {"pack.inner", "pack.inner.lost", "antigravity"} & set(module_names(tmp_path))


def test_each_page_has_an_address_of_its_own():
    found = urls("http://127.0.0.1:80/", 500)

    assert len(set(found)) == 500
    assert all(url.startswith("http://127.0.0.1:80/") and url.endswith(".html") for url in found)


def test_more_pages_than_there_are_is_a_error():
    with pytest.raises(ValueError, match="100000 are asked for"):
        urls("http://127.0.0.1/", 100_000)
