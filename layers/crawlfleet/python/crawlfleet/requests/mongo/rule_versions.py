"""Rules and spiders as they were when a request was accepted, on the home node.

A document has the rule as JSON under ``rule``, or the spider under ``spider``.
"""

from contextlib import suppress

import msgspec
from pymongo.errors import DuplicateKeyError

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.queue_key import Lane

_encode = msgspec.json.Encoder(order="sorted").encode
_rule = msgspec.json.Decoder(Rule).decode
_spider = msgspec.json.Decoder(Spider).decode


class MongoRules:
    """ports.RuleStore. A version, once seen, is remembered for the life of the process."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._known: dict[tuple[str, str, str, str], Rule | Spider] = {}

    def freeze(self, lane: Lane, name: str, rule: Rule | Spider) -> None:
        """See ports.RuleStore.freeze."""
        key = (lane.tenant, lane.biz, name, rule.version)
        if key in self._known:
            return
        kind = "rule" if isinstance(rule, Rule) else "spider"
        document = {"tenant": lane.tenant, "biz": lane.biz, kind: _encode(rule)}
        with border(), suppress(DuplicateKeyError):  # another one froze it at the same time
            self._nodes.control("rules").update_one(
                {"_id": "/".join(key)}, {"$setOnInsert": document}, upsert=True
            )
        self._known[key] = rule

    def frozen(self, lane: Lane, name: str, version: str) -> Rule | Spider | None:
        """See ports.RuleStore.frozen."""
        key = (lane.tenant, lane.biz, name, version)
        if key not in self._known:
            with border():
                found = self._nodes.control("rules").find_one({"_id": "/".join(key)})
            if found is None:
                return None
            self._known[key] = _read(found)
        return self._known[key]


def _read(document: Document) -> Rule | Spider:
    if "spider" in document:
        return _spider(document["spider"])
    return _rule(document["rule"])
