"""A consumer asked to try a rule: a worker's parts, for one page, in an event loop of its own."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from crawlfleet.adapters.http_fetcher import AiohttpFetcher
from crawlfleet.errors import InvalidRequestError
from crawlfleet.extract.trial import try_rule
from crawlfleet.flows.trials import TrialPorts, tried
from crawlfleet.model.trial import Question, Tried
from crawlfleet.ports import Clock, Executors, Hosts, RobotsCache, Validator
from crawlfleet.wiring.parts import Parts
from crawlfleet.wiring.readers import check_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialParts:
    """What a trial shares with the worker of the same environment."""

    hosts: Hosts
    robots: RobotsCache
    executors: Executors
    validator: Validator
    clock: Clock
    read_secret: Callable[[str], str]


def answer(parts: Parts, shared: TrialParts, event: Mapping[str, Any], who: str) -> dict[str, Any]:
    """The answer to an event's question, as plain values."""
    try:
        question = msgspec.convert(event["trial"], Question)
    except msgspec.ValidationError as error:
        raise InvalidRequestError.of("trial", str(error)) from error
    found: dict[str, Any] = msgspec.to_builtins(asyncio.run(_answer(parts, shared, question, who)))
    return found


async def _answer(parts: Parts, shared: TrialParts, question: Question, who: str) -> Tried:
    allow_private = parts.config.current().stage.allow_private_addresses
    async with AiohttpFetcher(allow_private, read_secret=shared.read_secret) as fetcher:
        ports = TrialPorts(
            config=parts.config,
            hosts=shared.hosts,
            robots=shared.robots,
            fetcher=fetcher,
            executors=shared.executors,
            validator=shared.validator,
            clock=shared.clock,
            check=check_reader,
            read=try_rule,
            warn=parts.warn,
        )
        return await tried(ports, question, f"trial-{who}")
