"""The target of a stage: an AWS account, or something on this machine that stands for one."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from infra.stages import GivenRedis, Stage

#: Where AWS is, for SDKs and for CDK.
ENV_ENDPOINT: Final = "AWS_ENDPOINT_URL"
#: What to do where a stage is out of place.
ADVICE: Final = (
    f"Set {ENV_ENDPOINT} to a LocalStack, or take another stage; `make localstack` does all of it"
    " by itself."
)
_HOSTS_OF_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")


def is_out_of_place(stage: Stage, environ: Mapping[str, str]) -> bool:
    """Return whether its Redis is one of this machine, and AWS itself is asked."""
    if not isinstance(stage.redis, GivenRedis):
        return False
    return _is_loopback(urlsplit(stage.redis.url).hostname or "") and _is_aws(environ)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_aws(environ: Mapping[str, str]) -> bool:
    """Return whether deployments go to AWS itself and not to a stand-in."""
    endpoint = environ.get(ENV_ENDPOINT)
    host = urlsplit(endpoint).hostname if endpoint else None
    return host is None or host.endswith(_HOSTS_OF_AWS)
