"""The scheduler's starts by events: a rule of somebody's own has a spider started."""

from collections.abc import Mapping
from typing import Any, Final

from crawlfleet.adapters.mongo.jobs import MongoJobs
from crawlfleet.adapters.mongo.spiders import MongoSpiders
from crawlfleet.adapters.redis_queue.board import RedisBoard
from crawlfleet.edge.starts import order_in, what_failed
from crawlfleet.errors import NoConfigurationError, QuotaExceededError, RejectedError
from crawlfleet.flows.starting import StartingPorts, start_job, wake_for
from crawlfleet.flows.ticking import TickPorts, tell_fault
from crawlfleet.model.tick import TickPart
from crawlfleet.ports import RuleStore
from crawlfleet.wiring.parts import Parts

#: Characters of a refusal that are told.
_LONGEST: Final = 2_000


class EventStarts:
    """Starts what events order, each once.

    Args:
        parts: The parts of the world.
        rules: Freezes the rules of jobs.
        telling: Is told what is refused.
    """

    def __init__(self, parts: Parts, rules: RuleStore, telling: TickPorts) -> None:
        self._parts = parts
        self._telling = telling
        self._ports = StartingPorts(
            jobs=MongoJobs(parts.nodes),
            spiders=MongoSpiders(parts.nodes),
            rules=rules,
            board=RedisBoard(parts.redis),
        )

    def start(self, event: Mapping[str, Any]) -> dict[str, int | str]:
        """Start the job that an event orders; what was started before is only told of.

        What is wrong with an event stays wrong: it is told and not raised, so Lambda does not try
        it again. What may be over in a moment is raised: Lambda tries it twice more, then it is a
        dead letter.

        Raises:
            QuotaExceededError: the biz has as many open jobs as it may.
            CrawlfleetError: a part is away.
        """
        try:
            order = order_in(event)
            job = start_job(self._ports, self._parts.config.current(), order, self._parts.now())
        except QuotaExceededError:
            raise
        except (RejectedError, NoConfigurationError) as error:
            return self._refuse(event, error)
        wake_for(job, self._parts.workers, self._parts.waker, self._parts.warn)
        told: dict[str, int | str] = {"job": job.name, "tasks": job.size, "state": job.state.value}
        whose = {"tenant": job.tenant, "biz": job.biz, "spider": str(job.spider)}
        self._parts.log.info("started by an event", extra={**told, **whose})
        return told

    def _refuse(self, event: Mapping[str, Any], error: Exception) -> dict[str, int | str]:
        why = str(error)[:_LONGEST]
        named = {name: event.get(name) for name in ("tenant", "biz", "spider", "id")}
        said = {name: value[:64] for name, value in named.items() if isinstance(value, str)}
        self._parts.log.warning(
            "an event starts nothing",
            extra={**said, "error": type(error).__name__, "reason": why},
        )
        tell_fault(self._telling, TickPart.STARTS, what_failed(event), self._parts.now())
        return {"refused": why}
