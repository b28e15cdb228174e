"""The scene of the journey: Redis, MongoDB, a site, LocalStack; started and stopped together."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from infra.local.demo import documentation_site
from infra.local.mongo_server import MongoServer
from infra.local.parts import LOOPBACK, PartError
from infra.local.redis_server import RedisServer
from infra.localstack.doorway import Doorway


class LocalStack(Protocol):
    """A LocalStack, however it is run.

    Attributes:
        address: Where its functions find what listens on this machine.
        folded: Whether functions are to carry their layers, as it does without them.
    """

    address: str
    folded: bool

    def prepare(self) -> None:
        """Fetch or build what it needs."""
        ...

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        ...

    def stop(self) -> None:
        """Stop it and its functions."""
        ...

    def environment(self) -> Mapping[str, str]:
        """The environment in which AWS's SDKs and CDK find it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The servers of a run, all of them up: LocalStack, Redis, MongoDB and the site.

    Attributes:
        environment: In which AWS's SDKs and CDK find LocalStack.
        redis_url: As functions see it.
        mongo_uri: As functions see it.
        site_url: As functions see it.
        folder: For whatever is written; gone afterwards.
    """

    environment: Mapping[str, str]
    redis_url: str
    mongo_uri: str
    site_url: str
    folder: Path


@contextmanager
def running(localstack: LocalStack, folder: Path) -> Iterator[Scene]:
    """Start all of it; whatever happens, nothing of it is left running.

    Raises:
        StepError: LocalStack does not start.
        PartError: Redis, MongoDB or the site does not.
    """
    redis, mongo = RedisServer(own=True), MongoServer(own=True, cache_gb=0.25)
    with ExitStack() as stack:
        stack.callback(mongo.stop)
        stack.callback(redis.stop)
        stack.callback(localstack.stop)
        with ThreadPoolExecutor(3) as pool:
            starts = [pool.submit(part.start) for part in (redis, mongo, localstack)]
            site = stack.enter_context(documentation_site(folder))
        for start in starts:
            start.result()
        ports = [_port(redis.url), _port(mongo.uri), _port(site.start)]
        if _is_another(localstack.address):
            for port in ports:
                stack.enter_context(Doorway(localstack.address, port))
        redis_port, mongo_port, site_port = (f"{localstack.address}:{port}" for port in ports)
        yield Scene(
            environment=localstack.environment(),
            redis_url=f"redis://{redis_port}/0",
            # A member tells where all are by addresses of its own machine: elsewhere nobody asks.
            mongo_uri=mongo.uri
            if localstack.address == LOOPBACK
            else f"mongodb://{mongo_port}/?directConnection=true",
            site_url=f"http://{site_port}/",
            folder=folder,
        )


def _port(url: str) -> int:
    """Return the port of the first address in a URL."""
    port = urlsplit(url.partition(",")[0]).port
    if port is None:
        raise PartError(f"{url} names no port")
    return port


def _is_another(address: str) -> bool:
    """Return whether it is an address of this machine at which nothing listens by itself."""
    try:
        return not ip_address(address).is_loopback
    except ValueError:
        return False  # a name of Docker's own: it leads to loopback
