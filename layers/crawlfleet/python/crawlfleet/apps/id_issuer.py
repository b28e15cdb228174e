"""The id-issuer: every id kind. Worker numbers come from Redis, or else from MongoDB."""

import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Annotated
from uuid import uuid4

import msgspec
from bson import ObjectId
from msgspec import Meta

from crawlfleet.apps.context import Parts, now
from crawlfleet.apps.health import health_of, is_health_check
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.ids import Block, IdKind
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.kernel.validation import Slug
from crawlfleet.requests.ids.issuer import BLOCK_LIFE, Issuer
from crawlfleet.requests.ids.mongo import FIRST_NUMBER, MongoCounter, MongoWorkerNumbers
from crawlfleet.requests.ids.redis import RedisWorkerNumbers

#: Most ids of one block: ten times the largest batch.
LARGEST_BLOCK = 10_000


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to the id-issuer. Tenant and biz matter to the counter alone."""

    count: Annotated[int, Meta(ge=1, le=LARGEST_BLOCK)]
    kind: IdKind = IdKind.SNOWFLAKE
    tenant: Slug = "default"
    biz: Slug = "default"


class IdIssuer:
    """Blocks of every kind."""

    def __init__(self, snowflakes: Issuer, counter: MongoCounter) -> None:
        self._makers: dict[IdKind, Callable[[Question], Block]] = {
            IdKind.SNOWFLAKE: lambda question: snowflakes.issue(question.count),
            IdKind.COUNTER: lambda question: self._count(counter, question),
            IdKind.UUID: lambda question: _hex_block(_uuid, question),
            IdKind.OBJECT_ID: lambda question: _hex_block(lambda: str(ObjectId()), question),
        }

    def issue(self, event: object) -> dict[str, object]:
        """Answer one question.

        Raises:
            InvalidRequestError: the question is none.
        """
        try:
            question = msgspec.convert(event, Question)
        except msgspec.ValidationError as error:
            raise InvalidRequestError.of("event", str(error)) from error
        answer: dict[str, object] = msgspec.to_builtins(self._makers[question.kind](question))
        return answer

    @staticmethod
    def _count(counter: MongoCounter, question: Question) -> Block:
        first = counter.reserve(question.tenant, question.biz, question.count)
        return Block(expires_at=_end(now()), runs=((first, question.count),))


def _uuid() -> str:
    # UUIDv7 carries its time, as the other kinds do. Imported here: few bizs ask for it.
    from uuid_utils import uuid7

    return uuid7().hex


def _hex_block(make: Callable[[], str], question: Question) -> Block:
    return Block(expires_at=_end(now()), ids=tuple(make() for _ in range(question.count)))


def _end(moment: datetime) -> datetime:
    return moment + BLOCK_LIFE


class EnvironmentIdIssuer(IdIssuer):
    """The id-issuer over the parts of its environment, and its health check."""

    def __init__(self, parts: Parts) -> None:
        authorities = (
            RedisWorkerNumbers(parts.redis, numbers=range(FIRST_NUMBER)),
            MongoWorkerNumbers(parts.nodes),
        )
        issuer = Issuer(authorities, uuid4().hex[:12], now, time.sleep)
        super().__init__(issuer, MongoCounter(parts.nodes))
        self._parts = parts

    def answer(self, event: object) -> dict[str, object]:
        """Issue a block, or answer a health check."""
        if is_health_check(event):
            return health_of(names.ID_ISSUER, self._parts, IdKind)
        return self.issue(event)


@lru_cache(maxsize=1)
def id_issuer(open_parts: Callable[..., Parts] = Parts) -> EnvironmentIdIssuer:
    """Open the id-issuer of this environment."""
    needs = (Need.REDIS, Need.NODES)
    return EnvironmentIdIssuer(open_parts(Settings.from_environment(needs=needs), "id-issuer"))
