"""Compile a rule to a plan, or list its validation errors.

Every expression is compiled once; what a field says is turned into one function that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crawlfleet.config.documents.rule import Cast, Field, Follow, Rule, Selector, Source, Take
from crawlfleet.config.rule_validation import gathers, rule_problems
from crawlfleet.crawling.extract import engines, limits, transforms, validation, values
from crawlfleet.crawling.extract.css import CssTexts
from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.engines import Place, engine_of, place_inside
from crawlfleet.crawling.extract.follow import Follower, Found, Refusals, anchors
from crawlfleet.crawling.extract.plan import PAGE, Finished, Given, Group, Query, Read, ReadMany
from crawlfleet.crawling.extract.regex import RegexQuery
from crawlfleet.crawling.extract.values import Facts, Values
from crawlfleet.kernel.errors import Problem
from crawlfleet.requests.models import Link

_JSON: Final = frozenset({"json", "data"})  #: Where values are JSON's own.


class Plan(NamedTuple):
    """A compiled rule. ``items`` is None where the page is one record."""

    items: ReadMany | None
    group: Group
    followers: tuple[Follower, ...] = ()

    def links(
        self, document: Document, depth: int, meta: Mapping[str, Any], refused: Refusals
    ) -> tuple[Link, ...]:
        """Return the links to follow, in the page's order and without repeats."""
        found: dict[tuple[str, str], Link] = {}
        for number, follower in enumerate(self.followers):
            try:
                follower.collect(document, depth, meta, found, refused)
            except limits.UnreadableError as error:
                raise error.within(f"follow[{number}]") from error.__cause__
        return tuple(found.values())

    def run(self, document: Document) -> list[dict[str, object]]:
        """Return the records of the page; an error names the field that cannot be read."""
        if not self.group.fields:
            return []
        if self.items is None:
            return [self.group.read(document, PAGE)]
        try:
            contexts = self.items(document, PAGE)
        except limits.UnreadableError as error:
            raise error.within("items") from error.__cause__
        return self.group.read_all(document, contexts, "items")


class Compiled(NamedTuple):
    """``plan`` is None exactly where there are problems."""

    plan: Plan | None
    problems: tuple[Problem, ...]


def compile_rule(rule: Rule, facts: Facts, prefix: str = "") -> Compiled:
    """Compile, or list all that is wrong; ``prefix`` leads the names of the fields."""
    compiler = _Compiler(rule.source, facts)
    place: Place = "page"
    items: ReadMany | None = None
    if rule.items is not None:
        items, place = compiler.items(rule.items, f"{prefix}items")
    group = compiler.group(rule.fields, place, f"{prefix}fields", 1)
    followers = tuple(
        compiler.follow(follow, f"{prefix}follow[{number}]")
        for number, follow in enumerate(rule.follow)
    )
    problems = (*compiler.problems, *rule_problems(rule, prefix))
    if problems:
        return Compiled(None, problems)
    return Compiled(Plan(items, group, followers), ())


class _Compiler:
    def __init__(self, source: Source, facts: Facts) -> None:
        self.source = source
        self.facts = facts
        self.problems: list[Problem] = []
        self.fields = 0

    def items(self, selector: Selector, path: str) -> tuple[ReadMany, Place]:
        engine = engine_of(selector)
        self._combinations(selector, "page", path)
        query, regex = self._queries(selector, "page", path)
        if regex is None:
            place: Place = place_inside(selector, "text")
            return (query.matches if query is not None else lambda _document, _context: []), place
        written = engines.value_reader(engine, Take.TEXT, None, self.source) if engine else str
        text = engines.source_text("page", self.source)
        return Values(query, written, regex, text).several, "text"

    def group(self, fields: Mapping[str, Field], place: Place, path: str, level: int) -> Group:
        if level > limits.LEVELS_MAX:
            self.problems.append(Problem(path, f"nested over {limits.LEVELS_MAX} levels deep"))
            return Group({}, 0)
        self.fields += len(fields)
        if self.fields > limits.FIELDS_MAX >= self.fields - len(fields):
            self.problems.append(Problem(path, f"more than {limits.FIELDS_MAX} fields in a rule"))
        named = {
            name: self.field(field, place, f"{path}.{name}", level)
            for name, field in fields.items()
        }
        scoped = place in {"css", "xpath"} and sum(
            engine_of(f) is not None for f in fields.values()
        )
        return Group(named, int(scoped))

    def field(self, field: Field, place: Place, path: str, level: int) -> Read:
        self._combinations(field, place, path)
        query, regex = self._queries(field, place, path)
        found = place_inside(field, place)
        if field.count and regex is None and query is not None:
            return values.read_count(query.count)
        given: Given = self._values(field, query, regex, place)
        chain = self.steps(field, f"{path}.transforms")
        if chain is not None:
            joins = gathers(field.transforms) and not field.list
            given = transforms.Transformed(given, chain, gathers=joins, strip=field.strip)
        if field.count:
            return values.read_count(
                lambda *of: sum(value is not None for value in given.several(*of))
            )
        if field.fields:
            below = found
            if field.type is Cast.JSON and (found not in _JSON or field.transforms):
                below = "json"
                given = Finished(given, values.finisher(field, from_json=False))
            elif regex is not None or field.fact is not None:
                below = "text"
            else:
                given = Values(query, lambda match: match, None, None)
            group = self.group(field.fields, below, f"{path}.fields", level + 1)
            return (values.read_groups if field.list else values.read_group)(field, given, group)
        from_json = found in _JSON and regex is None and not field.transforms
        finish = values.finisher(field, from_json=from_json)
        return (values.read_list if field.list else values.read_one)(field, given, finish)

    def _values(
        self, field: Field, query: Query | None, regex: RegexQuery | None, place: Place
    ) -> Values:
        plain: Any = values.plain_spaces if field.plain_space else lambda take: take
        if field.fact is not None:
            return Values(None, str, regex, self.facts.reader(field.fact))
        if field.main_text:
            return Values(None, str, regex, plain(lambda document, _: document.main_text))
        found = place_inside(field, place)
        take: Any = engines.value_reader(found, field.take, field.attribute, self.source)
        if regex is not None and query is None and field.attribute is None:
            return Values(None, str, regex, plain(engines.source_text(place, self.source)))
        return Values(query, plain(take), regex, None)

    def steps(self, said: Field | Follow, path: str) -> transforms.Chain | None:
        """Compile the steps that texts go through, if there are any."""
        chain, problems = transforms.compile_steps(said.transforms, path)
        self.problems.extend(problems)
        return chain if said.transforms else None

    def follow(self, follow: Follow, path: str) -> Follower:
        """Compile what finds the links of a page and judges them."""
        self._combinations(follow, "page", path)
        query, regex = self._queries(follow, "page", path)
        engine, attribute = engine_of(follow), follow.attribute
        if isinstance(query, CssTexts) and query.attribute is not None:
            # The elements say whether they are to be followed.
            attribute, query = query.attribute, query.elements
        if query is None:
            text = engines.source_text("page", self.source)
            found: Found = lambda document: ((text(document, None), False),)  # noqa: E731
        else:
            found = anchors(engine, query, attribute)
        allow = self._any(follow.allow, f"{path}.allow")
        deny = self._any(follow.deny, f"{path}.deny")
        meta = self.group(follow.meta, "page", f"{path}.meta", 1) if follow.meta else None
        chain = self.steps(follow, f"{path}.transforms")
        return Follower(follow, found, regex, chain, meta, allow, deny)

    def _any(self, expressions: tuple[str, ...], path: str) -> RegexQuery | None:
        """Join expressions to one that finds what any of them does."""
        sound = True
        for number, expression in enumerate(expressions):
            try:
                RegexQuery(expression)
            except ValueError as error:
                sound = False
                self.problems.append(Problem(f"{path}[{number}]", str(error)))
        if not expressions or not sound:
            return None
        try:
            return RegexQuery("|".join(f"(?:{expression})" for expression in expressions))
        except ValueError as error:
            self.problems.append(Problem(path, f"too much at once: {error}"))
            return None

    def _combinations(self, selector: Selector, place: Place, path: str) -> None:
        self.problems.extend(validation.combination_problems(selector, self.source, place, path))

    def _queries(
        self, selector: Selector, place: Place, path: str
    ) -> tuple[Query | None, RegexQuery | None]:
        query: Query | None = None
        regex: RegexQuery | None = None
        for engine in engines.ENGINES:
            expression = getattr(selector, engine)
            if expression is None:
                continue
            try:
                query = engines.compile_query(
                    engine, expression, self.source, place, selector.structured
                )
            except ValueError as error:
                self.problems.append(Problem(f"{path}.{engine}", str(error)))
        if selector.regex is not None:
            try:
                regex = RegexQuery(selector.regex)
            except ValueError as error:
                self.problems.append(Problem(f"{path}.regex", str(error)))
        return query, regex
