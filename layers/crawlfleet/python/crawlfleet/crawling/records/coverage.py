"""How well a biz's rules find what they look for (SPEC.md H8)."""

from dataclasses import dataclass

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.records.ports import Coverages
from crawlfleet.requests.models import Coverage, RuleCoverage


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveragePorts:
    """What looking at the coverage needs of the world."""

    coverages: Coverages


def coverage(ports: CoveragePorts, tree: Tree, tenant: str, biz_name: str) -> list[RuleCoverage]:
    """Every version that was counted, by rule, of each the current one first.

    Of the current version of a rule also the fields that never had a value are there.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    found = [
        _of(biz, rule, version, counted)
        for (rule, version), counted in ports.coverages.of(queue_key).items()
    ]
    return sorted(found, key=lambda one: (one.rule, not one.current, one.version))


def _of(biz: Biz, rule: str, version: str, counted: Coverage) -> RuleCoverage:
    source = biz.rules.get(rule) or biz.spiders.get(rule)
    current = source is not None and source.version == version
    if current and isinstance(source, Rule):
        fields = {**dict.fromkeys(source.fields, 0), **counted.fields}
        counted = msgspec.structs.replace(counted, fields=fields)
    return RuleCoverage(rule=rule, version=version, current=current, coverage=counted)
