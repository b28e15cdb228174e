"""The ports of jobs that wait for a worker, where a stage has bidding."""

from crawlfleet.adapters.http_prober import HttpProber
from crawlfleet.adapters.mongo.demands import MongoDemands
from crawlfleet.adapters.mongo.jobs import MongoJobs
from crawlfleet.adapters.redis_queue.board import RedisBoard
from crawlfleet.adapters.redis_queue.probes import RedisProbes
from crawlfleet.flows.applying import ApplyingPorts
from crawlfleet.flows.awarding import AwardingPorts
from crawlfleet.flows.probing import ProbingPorts
from crawlfleet.ports import Clock, Fetcher, Hosts, RobotsCache, Watch
from crawlfleet.ports.readings import Readings
from crawlfleet.wiring.parts import Parts


def awarding_ports(parts: Parts, watch: Watch) -> AwardingPorts:
    """What every worker and the scheduler award by."""
    return AwardingPorts(
        jobs=MongoJobs(parts.nodes),
        board=RedisBoard(parts.redis),
        demands=MongoDemands(parts.nodes),
        watch=watch,
        warn=parts.warn,
        say=parts.log.info,
    )


def applying_ports(
    parts: Parts,
    awarding: AwardingPorts,
    prober: HttpProber,
    *,
    hosts: Hosts,
    robots: RobotsCache,
    fetcher: Fetcher,
    readings: Readings,
    clock: Clock,
) -> ApplyingPorts:
    """What a worker applies by; ``prober`` measures the ways that its own downloads take."""
    probing = ProbingPorts(
        config=parts.config,
        hosts=hosts,
        robots=robots,
        fetcher=fetcher,
        prober=prober,
        book=RedisProbes(parts.redis),
        clock=clock,
        warn=parts.warn,
    )
    return ApplyingPorts(
        config=parts.config,
        board=awarding.board,
        jobs=awarding.jobs,
        demands=awarding.demands,
        readings=readings,
        probing=probing,
        clock=clock,
        warn=parts.warn,
    )
