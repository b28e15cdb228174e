"""Decide what of a configuration tree is in force (SPEC.md A3, H8).

Decided per document: a wrong one is refused, its last good version stays, and no other document
suffers. Where two documents contradict each other, the one that was in force is believed. The same
decisions serve the functions, which adopt what is good, and the command line, which refuses a whole
push for one error. A path names a document: ``stage``, ``tenants/{tenant}``,
``bizs/{tenant}/{biz}``; all are JSON.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from crawlfleet.config import partial_rules, validation
from crawlfleet.config.documents.biz import Biz, Stage, Tenant, Tree, routed
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.names import CONFIG_BIZS, CONFIG_STAGE, CONFIG_TENANTS, DEFAULT_TENANT
from crawlfleet.kernel.validation import decode, named, right_fields

Document: TypeAlias = Stage | Tenant | Biz
_SLUG = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_SHAPES: Final[dict[tuple[str, int], type[Document]]] = {
    (CONFIG_STAGE, 0): Stage,
    (CONFIG_TENANTS, 1): Tenant,
    (CONFIG_BIZS, 2): Biz,
}
NAMES: Final = "names are up to 32 of a-z, 0-9 and -, a letter first"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it reads by itself.

    With problems, ``value`` is None; ``readable`` is then what could be read of a biz, so that what
    it names elsewhere is judged all the same.
    """

    text: str
    value: Document | None
    problems: tuple[Problem, ...] = ()
    readable: Biz | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The tree in force from here on, and everything that is not in force, with reasons.

    ``tree`` is None when there is no stage document to start from. ``readings`` save the next
    verdict from reading unchanged documents again.
    """

    tree: Tree | None
    problems: tuple[Problem, ...]
    readings: dict[str, Reading]


def adopt(
    revision: str,
    documents: Mapping[str, str],
    in_force: Tree | None,
    known: Mapping[str, Reading],
    check: validation.ReaderCheck,
) -> Verdict:
    """Judge the documents of a revision, texts by path, against the last good tree, if any.

    The new tree carries the ``revision``; ``known`` are readings of earlier verdicts, by path.
    """
    readings = {
        path: known[path]
        if path in known and known[path].text == text
        else read_document(path, text, check)
        for path, text in sorted(documents.items())
    }
    problems = [problem for reading in readings.values() for problem in reading.problems]
    if CONFIG_STAGE not in readings:
        problems.insert(0, Problem(CONFIG_STAGE, "is missing"))
    stage = _stage(readings) or (in_force.stage if in_force else None)
    candidates = _candidates(readings, in_force, stage)
    problems += _judge_places(candidates, readings, stage)
    problems += _judge_claims(candidates)
    tree = None if stage is None else _tree(revision, stage, candidates)
    return Verdict(tree=tree, problems=tuple(problems), readings=readings)


def push_problems(standing: Mapping[str, str], wanted: Tree, now: datetime) -> list[Problem]:
    """Find what forbids the step from the stored documents to a tree that is valid by itself."""
    found: list[Problem] = []
    stage = decode(standing.get(CONFIG_STAGE, ""), Stage)[0] or wanted.stage
    for path, text in standing.items():
        if shape_of(path) is not Biz:
            continue
        written = decode(text, Biz)[0]
        _, tenant, name = path.split("/")
        new = wanted.bizs.get(tenant, {}).get(name)
        if written is None or new is None:
            continue
        old = routed(written, name, stage.home_node)
        if new != old:
            problems = validation.change_problems(old, new, now)
            found += placed(path, [_unwritten(written, old, problem) for problem in problems])
    return found


def _unwritten(written: Biz, routed_so_far: Biz, problem: Problem) -> Problem:
    """Say how one writes the route that a document relied on, where that would change."""
    if not problem.field.startswith("generations") or written == routed_so_far:
        return problem
    route = msgspec.json.encode(routed_so_far.generations).decode()
    return Problem(problem.field, f"{problem.message}; what stood there unwritten is {route}")


def read_document(path: str, text: str, check: validation.ReaderCheck) -> Reading:
    """Decode one document and check all of it that can be checked without the others."""
    shape = shape_of(path)
    if shape is None:
        where = f"expected {CONFIG_STAGE}, {CONFIG_TENANTS}/TENANT or {CONFIG_BIZS}/TENANT/BIZ"
        problem = Problem(path, f"is no place for a document: {where}; {NAMES}")
        return Reading(text=text, value=None, problems=(problem,))
    value: Document | None
    value, problems = decode(text, shape)
    readable: Document | None = value
    if value is None and shape is Biz:
        readable = Biz(**right_fields(text, Biz))
    if isinstance(readable, Stage):
        problems += tuple(validation.stage_problems(readable))
    elif isinstance(readable, Tenant):
        problems += tuple(validation.repeated("api_keys", readable.api_keys))
        problems += tuple(validation.retired_problems(readable))
        problems += tuple(validation.tenant_problems(readable))
    elif isinstance(readable, Biz):
        document = None if readable is value else _json_in(text)
        problems += tuple(
            validation.biz_problems(readable, check, partial_rules.readers_in(document))
        )
        problems += tuple(partial_rules.rules_problems(document, check))
        problems += tuple(validation.no_reader_problems(readable)) if _reads_nothing(text) else ()
    if not problems:
        return Reading(text=text, value=value)
    biz, found = readable if isinstance(readable, Biz) else None, tuple(placed(path, problems))
    return Reading(text=text, value=None, problems=found, readable=biz)


def _reads_nothing(text: str) -> bool:
    """Return whether a biz has neither rules nor spiders; False of what is damaged."""
    said = _json_in(text)
    return isinstance(said, dict) and not said.get("rules") and not said.get("spiders")


def _json_in(text: str) -> object:
    """Return what JSON a text is; None of what is damaged."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def shape_of(path: str) -> type[Document] | None:
    """Return the type of the document at a path, or None where none may be.

    >>> shape_of("bizs/acme/shop").__name__
    'Biz'
    """
    kind, *place = path.split("/")
    if not all(_SLUG.match(name) for name in place):
        return None
    return _SHAPES.get((kind, len(place)))


def misnamed(path: str) -> list[str]:
    """Return what of a path is no name, where but for that a document might be.

    >>> misnamed("bizs/acme/Shop"), misnamed("biz/acme/Shop")
    (['Shop'], [])
    """
    kind, *place = path.split("/")
    if shape_of("/".join((kind, *("x" for _ in place)))) is None:
        return []
    return [name for name in place if not _SLUG.match(name)]


def placed(path: str, problems: list[Problem] | tuple[Problem, ...]) -> list[Problem]:
    """Put their document's path before the problems' fields."""
    return [
        Problem(f"{path}: {problem.field}" if problem.field else path, problem.message)
        for problem in problems
    ]


class _Candidate(msgspec.Struct, kw_only=True):
    """A document about to be in force, and the version that is so now; either may be missing."""

    value: Document | None
    last_good: Document | None

    @property
    def is_new(self) -> bool:
        return self.value is not None and self.value is not self.last_good


def _candidates(
    readings: Mapping[str, Reading], in_force: Tree | None, stage: Stage | None
) -> dict[str, _Candidate]:
    """Tenants and bizs by path. A document that is gone from the tree is gone from force too."""
    found: dict[str, _Candidate] = {}
    for path, reading in readings.items():
        if path == CONFIG_STAGE or shape_of(path) is None:
            continue
        last_good = _find(in_force, path)
        value = reading.value if reading.value is not None else last_good
        if isinstance(value, Biz) and stage is not None:
            value = routed(value, path.split("/")[2], stage.home_node)
        # An unchanged document is the one in force, whichever object it was decoded to.
        found[path] = _Candidate(
            value=last_good if value == last_good else value, last_good=last_good
        )
    return found


def _judge_places(
    candidates: Mapping[str, _Candidate], readings: Mapping[str, Reading], stage: Stage | None
) -> list[Problem]:
    """Refuse bizs that name a tenant or a node that is not there."""
    found: list[Problem] = []
    for path, candidate in candidates.items():
        reading = readings[path]
        biz = reading.readable if reading.value is None else candidate.value
        if not isinstance(biz, Biz):
            continue
        tenant = path.split("/")[1]
        problems: list[Problem] = []
        tenant_path = f"{CONFIG_TENANTS}/{tenant}"
        if tenant != DEFAULT_TENANT and tenant_path not in readings:
            problems.append(Problem("", f"there is no document {tenant_path}"))
        owner = candidates[tenant_path].value if tenant_path in candidates else None
        if isinstance(owner, Tenant) and owner.removing and owner.removing.withdrawn_at:
            problems.append(Problem("", f"the tenant {tenant} is being removed"))
        for index, generation in enumerate(biz.generations if stage else ()):
            for number, node in enumerate(generation.nodes):
                if stage is not None and node not in stage.nodes:
                    place = f"generations[{index}].nodes[{number}]"
                    said = f"{node!r} is no node of the stage; it has {named(stage.nodes, node)}"
                    problems.append(Problem(place, said))
        pool = biz.fetch.proxies
        if stage is not None and pool is not None and pool not in stage.proxies:
            there = named(stage.proxies, pool) or "none"
            said = f"{pool!r} is no pool of the stage's proxies; it has {there}"
            problems.append(Problem("fetch.proxies", said))
        if problems:
            found += placed(path, problems)
            candidate.value = candidate.last_good
    return found


def _judge_claims(candidates: Mapping[str, _Candidate]) -> list[Problem]:
    """Find what two documents claim and one may have. New claims yield to those in force.

    Each round puts at least one new document back to its last good version. Those are of one good
    tree and do not contradict one another, so the rounds end.
    """
    found: dict[Problem, None] = {}
    while True:
        refused: set[str] = set()
        for claim, claimants in _claims(candidates).items():
            for path in sorted(claimants) if len(claimants) > 1 else ():
                if candidates[path].is_new:
                    others = " and ".join(sorted(claimants - {path}))
                    message = f"{claim.value} is claimed by {others} too"
                    found[Problem(f"{path}: {claim.field}", message)] = None
                    refused.add(path)
        if not refused:
            return list(found)
        for path in refused:
            candidates[path].value = candidates[path].last_good


class _Claim(msgspec.Struct, frozen=True):
    """Something that one document of a scope may have; the field that claims it."""

    scope: str
    field: str
    value: str


def _claims(candidates: Mapping[str, _Candidate]) -> dict[_Claim, set[str]]:
    found: defaultdict[_Claim, set[str]] = defaultdict(set)
    for path, candidate in candidates.items():
        value = candidate.value
        if isinstance(value, Tenant):
            for key in (*value.api_keys, *value.retiring_keys):
                found[_Claim("", "api_keys", f"API key id {key}")].add(path)
        elif isinstance(value, Biz):
            tenant = path.split("/")[1]
            databases = {name for each in value.generations for name in each.databases}
            for database in sorted(databases):
                place = f"collection {value.collection} in database {database}"
                found[_Claim(tenant, "collection", place)].add(path)
    return found


def _tree(revision: str, stage: Stage, candidates: Mapping[str, _Candidate]) -> Tree:
    tenants: dict[str, Tenant] = {DEFAULT_TENANT: Tenant()}
    bizs: dict[str, dict[str, Biz]] = {}
    refused = set()
    for path, candidate in candidates.items():
        _, tenant, *names = path.split("/")
        if isinstance(candidate.value, Tenant):
            tenants[tenant] = candidate.value
        elif isinstance(candidate.value, Biz):
            bizs.setdefault(tenant, {})[names[0]] = candidate.value
        elif names:
            refused.add((tenant, names[0]))
    return Tree(
        revision=revision, stage=stage, tenants=tenants, bizs=bizs, refused=frozenset(refused)
    )


def _find(tree: Tree | None, path: str) -> Document | None:
    if tree is None:
        return None
    kind, tenant, *names = path.split("/")
    if kind == CONFIG_TENANTS:
        return tree.tenants.get(tenant)
    return tree.bizs.get(tenant, {}).get(names[0])


def _stage(readings: Mapping[str, Reading]) -> Stage | None:
    value = readings[CONFIG_STAGE].value if CONFIG_STAGE in readings else None
    return value if isinstance(value, Stage) else None
