"""What `crawlfleet rule try` is about: the rule or spider in a file, and the page to try it on."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from crawlfleet.cli.config_folder import SUFFIXES, read_file
from crawlfleet.config.documents.biz import Biz, FetchLimits
from crawlfleet.config.documents.policies import Politeness
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import decode, named

#: What a saved page is taken to be.
TYPES: Final = {".xml": "application/xml", ".rss": "application/xml", ".json": "application/json"}
_BASE: Final = "https://page.invalid/"
_MAX_FILE_BYTES: Final = 50_000_000
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: What people type for an address and forget the scheme of: ``localhost:8901/x``, ``a.example/x``.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(?::[0-9]{1,5}(?:/|\Z)|/)")


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A rule or spider, what fetches its pages, and the readers that its links may name."""

    reader: Rule | Spider
    name: str
    fetch: FetchLimits = FetchLimits()
    politeness: Politeness = Politeness()
    readers: frozenset[str] | None = None


def choose(path: Path, biz: str | None = None, name: str | None = None) -> Chosen:
    """The rule or spider that is meant.

    Raises:
        ConfigError: names what is wrong with the file, or says what there is to choose from.
    """
    if path.is_dir():
        path = _biz_file(path, biz)
    try:
        text = read_file(path)
        document = msgspec.json.decode(text)
    except ValueError as error:
        raise ConfigError((Problem(str(path), str(error)),)) from error
    if isinstance(document, dict) and not document.keys() & {"generations", "rules", "spiders"}:
        kind: type[Rule | Spider] = Spider if "executor" in document else Rule
        single, problems = decode(text, kind)
        if single is None:
            raise ConfigError(_placed(path, problems))
        return Chosen(reader=single, name=name or path.stem)
    whole, problems = decode(text, Biz)
    if whole is None:
        raise ConfigError(_placed(path, problems))
    if name is None and len(whole.readers) == 1:
        [name] = whole.readers
    reader = None if name is None else whole.reader(name)
    if name is None or reader is None:
        there = named(whole.readers, name or "") or "none"
        said = "--rule says which rule or spider" if name is None else f"there is no rule {name}"
        raise ConfigError((Problem(str(path), f"{said}; it has {there}"),))
    return Chosen(
        reader=reader,
        name=name,
        fetch=whole.fetch,
        politeness=whole.politeness,
        readers=frozenset(whole.readers),
    )


def _biz_file(folder: Path, biz: str | None) -> Path:
    files = {
        f"{file.parent.name}/{file.stem}": file
        for file in sorted((folder / "bizs").glob("*/*"))
        if file.suffix in SUFFIXES
    }
    meant = [name for name in files if biz in {None, name, name.partition("/")[2]}]
    if len(meant) != 1:
        there = ", ".join(files) or "none; expected bizs/TENANT/BIZ.yaml"
        said = "--biz says which biz" if biz is None or meant else f"there is no biz {biz}"
        raise ConfigError((Problem(str(folder), f"{said}; it has {there}"),))
    return files[meant[0]]


def _placed(path: Path, problems: tuple[Problem, ...]) -> Iterator[Problem]:
    for problem in problems:
        yield Problem(f"{path}: {problem.field}" if problem.field else str(path), problem.message)


def is_url(page: str) -> bool:
    """Whether a page is asked for, and not read from a file."""
    return page.lower().startswith(("http://", "https://"))


def saved_page(page: str) -> Path:
    """The file of a page.

    Raises:
        BadParameter: there is none of that name, and it may be meant for an address.
    """
    file = Path(page)
    if not file.exists():
        if _SCHEME.match(page):
            message = f"{page!r} is no address that pages are asked for by: http:// or https://"
            raise click.BadParameter(f"{message}.", param_hint="FILE|URL")
        if _HOST.match(page) and not page.startswith(("./", "../")):
            message = f"there is no file {page!r}; an address begins with http:// or https://"
            raise click.BadParameter(f"{message}.", param_hint="FILE|URL")
    return file


def page_of(where: str, url: str | None, fetch: FetchLimits, politeness: Politeness | None) -> Page:
    """The page, from its file or as its site answers now; None for politeness: robots.txt is not.

    Raises:
        ConfigError: the file is too large, or nothing can be asked for by that URL.
        FetchError: there is no such page now.
    """
    if is_url(where):
        from crawlfleet.cli.rule_page import ask

        page = ask(where, fetch, politeness)
        return msgspec.structs.replace(page, url=url) if url else page
    file = saved_page(where)
    if file.stat().st_size > _MAX_FILE_BYTES:
        raise ConfigError((Problem(where, f"is larger than {_MAX_FILE_BYTES:,} bytes"),))
    return Page(
        url=url or _BASE,
        status=200,
        headers={"content-type": type_of(file)},
        body=file.read_bytes(),
    )


def type_of(file: Path) -> str:
    """What a saved page is taken to be."""
    return TYPES.get(file.suffix.lower(), "text/html")
