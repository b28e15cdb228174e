"""The trials' function: a rule tried on a page that anybody names, without stores or secrets.

It reads no configuration either: what it goes by comes with each question (crawling.trials). No
driver of a store is imported here, and its role may do nothing but write its log.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from aws_lambda_powertools import Logger

from crawlfleet import __version__
from crawlfleet.apps.health import FunctionHealth, is_health_check
from crawlfleet.apps.process import keep_memory
from crawlfleet.apps.readers import carry_spiders
from crawlfleet.apps.reading import PageReaders
from crawlfleet.config.documents.biz import Stage
from crawlfleet.crawling.executors.registry import REGISTRY
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.fetching.secrets import SecretTexts
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.trials.messages import LARGEST_BYTES, Answer, Question, Tried
from crawlfleet.crawling.trials.service import TrialRunner
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.names import PRODUCT
from crawlfleet.kernel.settings import Settings

_TOO_MUCH: Final = Problem("page", "yields more than an answer can carry")


class TrialApp:
    """The trials' function of one environment, kept between its invocations."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        log = Logger(service=names.TRIALS, level=settings.log_level)
        Logger(service=PRODUCT, level=settings.log_level).append_keys(service=names.TRIALS)
        for problem in REGISTRY.problems:
            log.warning("an executor cannot be used", extra={"problem": str(problem)})
        self._readers = PageReaders(settings.scrapy_packages)
        self._validator = SchemaValidator()

    def answer(self, event: Mapping[str, Any]) -> dict[str, object]:
        """Do a step of a trial, or answer a health check.

        Raises InvalidRequestError for an event that is neither.
        """
        if is_health_check(event):
            return self._health()
        try:
            question = msgspec.convert(event.get("trial"), Question)
        except msgspec.ValidationError as error:
            raise InvalidRequestError.of("trial", str(error)) from error
        answer = asyncio.run(self._try(question))
        if len(msgspec.json.encode(answer)) > LARGEST_BYTES:
            answer = Answer(tried=Tried(problems=(_TOO_MUCH,)), seen=answer.seen)
        found: dict[str, object] = msgspec.to_builtins(answer)
        return found

    async def _try(self, question: Question) -> Answer:
        terms, texts = question.terms, question.confidential.texts
        stage = Stage(ports=terms.ports, allow_private_addresses=terms.allow_private_addresses)
        secrets = SecretTexts(lambda _tenant, name: texts[name])
        fetcher = AiohttpFetcher(
            terms.allow_private_addresses,
            may_ask=stage.may_ask,
            is_store=terms.stores.has,
            read_secret=lambda _name: question.confidential.proxy,
            secrets=secrets,
        )
        async with fetcher, self._readers.reader(lambda: terms.reading) as reader:
            runner = TrialRunner(
                validator=self._validator,
                clock=lambda: datetime.now(UTC),
                secrets=secrets,
                fetcher=fetcher,
                reader=reader,
            )
            return await runner.answer(question)

    def _health(self) -> dict[str, object]:
        reading = self._readers.defences()
        health = FunctionHealth(
            function=names.TRIALS,
            version=__version__,
            stage=self._settings.stage,
            pool=self._settings.pool,
            revision="",
            config_refused=False,
            healthy="reader" not in reading,
            parts={},
            runs=sorted(REGISTRY.names()),
            reading=reading,
        )
        found: dict[str, object] = msgspec.to_builtins(health)
        return found

    def close(self) -> None:
        """End the process that reads pages."""
        self._readers.close()


@lru_cache(maxsize=1)
def trials(_open_parts: Callable[..., Any] | None = None) -> TrialApp:
    """Open the trials of this environment, which has no parts."""
    settings = Settings.from_environment()
    carry_spiders(settings.scrapy_packages)
    made = TrialApp(settings)
    keep_memory()
    return made
