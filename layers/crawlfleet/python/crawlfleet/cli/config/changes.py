"""Tell what a push changes, document by document, and what it leaves as it is.

All of it stands on two trees of documents, that of the stage before and after: nothing is asked.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.cli.config_folder import render
from crawlfleet.cli.console import counted, note
from crawlfleet.config import publishing
from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.loading import shape_of
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.names import CONFIG_STAGE, CONFIG_TENANTS, DEFAULT_TENANT
from crawlfleet.kernel.validation import decode

#: Most documents that a sentence names.
_NAMED: Final = 10


def report_managed(stored: Mapping[str, str], documents: Mapping[str, str], folder: Path) -> None:
    """Tell which tenants stay as they are, as no files manage them."""
    managed = publishing.managed_tenants(stored)
    if others := [one for one in managed if f"{CONFIG_TENANTS}/{one}" not in documents]:
        note(
            f"{counted(len(others), 'tenant')} that no files manage, not in {folder}, stays as "
            f"before: {listed(others)}"
        )


def tenants_elsewhere(documents: Mapping[str, str]) -> list[str]:
    """Find tenants that bizs of a folder belong to, and of which it has no document.

    >>> tenants_elsewhere({"bizs/acme/shop": "{}", "bizs/default/docs": "{}"})
    ['tenants/acme']
    """
    owners = {path.split("/")[1] for path in documents if shape_of(path) is Biz}
    paths = {f"{CONFIG_TENANTS}/{owner}" for owner in owners - {DEFAULT_TENANT}}
    return sorted(paths - documents.keys())


def report_others(stored: Mapping[str, str], documents: Mapping[str, str], folder: Path) -> None:
    """Tell which documents of the stage stay in force though the folder lacks them."""
    removed = publishing.wanted_of(stored, documents, delete=True)
    others = sorted(stored.keys() - removed.keys() - {CONFIG_STAGE})
    if others:
        are, remedy, kept = (
            ("is", "`--delete` removes it", "it stays in force")
            if len(others) == 1
            else ("are", "`--delete` removes them", "they stay in force")
        )
        if CONFIG_STAGE not in documents:  # --delete would remove that, too, and is refused
            remedy = kept
        note(
            f"{counted(len(others), 'document')} of the stage {are} not in {folder}: "
            f"{listed(others)}; {remedy}"
        )


def listed(paths: Sequence[str]) -> str:
    """Name documents in a sentence, up to ten of them."""
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def warn_of_resolvers(documents: Mapping[str, str]) -> None:
    """Tell which resolvers are not found here: the stage's functions may have them."""
    from crawlfleet.crawling.frontier.resolvers import SEED_KEYS, SEGMENTS, missing

    for path, text in sorted(documents.items()):
        biz = decode(text, Biz)[0] if shape_of(path) is Biz else None
        if biz is None:
            continue
        named = (
            ("resolvers", SEED_KEYS, biz.seeds.resolvers.values()),
            ("segment_resolver", SEGMENTS, filter(None, (biz.seeds.segment_resolver,))),
        )
        for field, group, wanted in named:
            for name in missing(group, wanted):
                note(
                    f"warning: {path}: seeds.{field}: no package here brings one called {name!r} "
                    f"({group}); without it the stage's functions refuse the biz's seeds"
                )


def warn_of_readers_that_go(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Tell which bizs, rules and spiders go: schedules and what may name them stay."""
    for path in sorted(before.keys() - after.keys()):
        if shape_of(path) is Biz:
            biz = path.rpartition("/")[2]
            note(
                f"warning: {path} goes: what is stored of it stays, and is read again once a biz "
                "of that name is pushed; its open jobs wait for that, a week at most, and its "
                f"schedules start none: `crawlfleet schedule list {biz}` shows them still, and "
                f"`crawlfleet subscription list {biz}` its subscriptions, which take nothing"
            )
    for path in sorted(before.keys() & after.keys()):
        if shape_of(path) is not Biz or before[path] == after[path]:
            continue
        old, new = decode(before[path], Biz)[0], decode(after[path], Biz)[0]
        if old is None or new is None:
            continue
        gone = [name for name in old.readers if name not in new.readers]
        if gone:
            biz = path.rpartition("/")[2]
            note(
                f"warning: {path}: {listed(gone)} {'goes' if len(gone) == 1 else 'go'}; a "
                "schedule or a kept spider that names one starts no job any more: see "
                f"`crawlfleet schedule list {biz}` and `crawlfleet spider list {biz}`"
            )


def with_remedies(
    problems: tuple[Problem, ...], documents: Mapping[str, str], delete: bool
) -> Iterator[Problem]:
    """Add how to remove documents that the folder lacks, and how to name a biz that stands."""
    for problem in problems:
        document, _, inside = problem.field.partition(": ")
        said = problem.message
        if inside and document not in documents and shape_of(document) is not None and not delete:
            said += " (not in this folder: --delete removes it)"
        elif document == CONFIG_STAGE and document not in documents and not inside and delete:
            said += (
                " in this folder, and --delete would remove it from the stage, too: `crawlfleet "
                "config pull FOLDER --stage STAGE` writes all that stands into a folder, to delete "
                "files there and push that"
            )
        elif document == CONFIG_STAGE and document not in documents and not inside:
            said += " on the stage and in this folder: a stage.yaml, even of {}, sets one up"
        elif inside == "generations" and document in documents:  # its history is another's
            name = document.rpartition("/")[2]
            said += (
                f" (a biz called {name!r} stands already: if yours is another one, rename its file "
                "in the folder; `crawlfleet init --biz NAME` names one)"
            )
        yield Problem(problem.field, said)


def stage_changes(prepared: publishing.Plan) -> Iterator[str]:
    """Tell which settings of the stage change, as they hold for every biz."""
    try:
        before, after = (
            _settings(msgspec.json.decode(texts.get(CONFIG_STAGE, "{}"), type=dict[str, Any]))
            for texts in (prepared.before, prepared.after)
        )
    except msgspec.DecodeError:  # what stands is broken: whatever replaces it is a mend
        return
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    if changed and CONFIG_STAGE in prepared.before:
        yield "settings of the stage change, which hold for every biz:"
        for name in changed:
            values = (_setting(of[name]) if name in of else "default" for of in (before, after))
            yield f"  {name}: {' -> '.join(values)}"


def _settings(document: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Return what a document sets, each by its path.

    >>> _settings({"hosts": {"per_second": 2}, "nodes": ["a"]})
    {'hosts.per_second': 2, 'nodes': ['a']}
    """
    found: dict[str, Any] = {}
    for name, value in document.items():
        path = f"{inside}{name}"
        found |= _settings(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return found


def _setting(value: object) -> str:
    return msgspec.json.encode(value).decode()


def different(stored: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Return the paths of documents that are not the same in both."""

    def in_both(path: str) -> bool:
        return publishing.compact(stored.get(path, "")) == publishing.compact(wanted.get(path, ""))

    return sorted(path for path in stored.keys() | wanted.keys() if not in_both(path))


def differences(
    stored: Mapping[str, str], wanted: Mapping[str, str], stage: str, folder: str
) -> Iterator[str]:
    """Yield a unified diff, document by document, in the spelling that people write."""
    for path in different(stored, wanted):
        before, after = stored.get(path), wanted.get(path)
        yield from difflib.unified_diff(
            [] if before is None else render(before).splitlines(),
            [] if after is None else render(after).splitlines(),
            f"{stage}/{path}" if before is not None else "/dev/null",
            f"{folder}/{path}" if after is not None else "/dev/null",
            lineterm="",
        )
