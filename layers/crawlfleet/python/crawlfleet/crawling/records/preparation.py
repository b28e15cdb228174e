"""Make records of what was read of a page: normalised, checked by the schema, with their keys.

Nothing of a store is imported here: a function that tries rules has none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.records import normalise
from crawlfleet.crawling.records.normalise import LONGEST_REPORTED, MOST_REPORTED
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.requests.models import Claim, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Records to be stored; how many are not, and why of the first ones.

    ``unfit`` are the fields of the latter that could have been records but for schema or key.
    ``next_index`` is where a later part of the same page goes on.
    """

    records: tuple[Record, ...]
    rejected: tuple[str, ...]
    rejected_count: int
    unfit: tuple[dict[str, Any], ...]
    next_index: int


def prepare(
    validator: SchemaValidator,
    source: Rule | Spider,
    claim: Claim,
    url: str,
    fields: Iterable[Mapping[str, Any] | normalise.Unfit],
    stored_at: datetime,
    first_index: int = 0,
    first_place: int | None = None,
) -> Prepared:
    """Make records of what was read of a claimed request's page.

    ``url`` is where the page was found. Indexes have no gaps: a rejected record has none. It is
    named by its place among all that was read, which begins at ``first_place`` in a later part.
    """
    request = claim.request
    body = request.body
    records: list[Record] = []
    rejected: list[str] = []
    unfit: list[dict[str, Any]] = []
    count = 0
    for place, one in enumerate(fields, first_index if first_place is None else first_place):
        plain = None
        try:
            plain = normalise.normalised(one)
            check_fields(validator, source, plain)
            key = None
            if source.key:
                key = record_key(source, request.tenant, request.biz, body.rule, plain)
        except InvalidRequestError as error:
            count += 1
            if plain is not None:
                unfit.append(plain)
            if len(rejected) < MOST_REPORTED:
                rejected.append(reported(f"record {place}, {first_of(error.problems)}"))
            continue
        records.append(
            Record(
                request_id=request.id,
                index=first_index + len(records),
                biz=request.biz,
                url=url,
                rule=body.rule,
                rule_version=body.rule_version,
                stored_at=stored_at,
                fields=plain,
                key=key,
                job=request.job,
                trace=request.trace,
            )
        )
    return Prepared(
        records=tuple(records),
        rejected=tuple(rejected),
        rejected_count=count,
        unfit=tuple(unfit),
        next_index=first_index + len(records),
    )


def check_fields(
    validator: SchemaValidator, source: Rule | Spider | None, plain: dict[str, Any]
) -> None:
    """Check normalised fields by the schema; raises InvalidRequestError."""
    if source is not None and source.schema is not None:
        problems = validator.problems(source.schema, plain)
        if problems:
            raise InvalidRequestError(problems)


def record_key(
    source: Rule | Spider, tenant: str, biz: str, rule: str, fields: Mapping[str, Any]
) -> str:
    """Return the key by which the record is stored; InvalidRequestError where a part is missing."""
    key = normalise.key_of(tenant, biz, rule, source.key, fields)
    if key is None:
        missing = next(name for name in source.key if fields.get(name) in (None, "", [], {}))
        raise InvalidRequestError.of(missing, "is missing, and is part of the record's key")
    return key


def first_of(problems: Sequence[Problem]) -> str:
    """Return the first problem, and how many there are beside it."""
    first = problems[0]
    said = str(first) if first.field else first.message
    return said if len(problems) == 1 else f"{said} (and {len(problems) - 1} more)"


def reported(text: str) -> str:
    """Cut a text to what reports quote."""
    return text[:LONGEST_REPORTED].encode("utf-8", "replace").decode()
