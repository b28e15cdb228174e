"""How every AWS client of ours is made: explicit time-outs, few tries, the environment's addresses.

botocore's own defaults wait 60 s and try five times, which is longer than most functions live.

A Lambda endpoint answers for the functions of its own region alone. Where another region's is meant
it is named by its ARN, and its client is one of the region in there.
"""

import re
from functools import cache
from typing import Any, Final

#: A caller is waiting; AWS answers within tens of milliseconds or is in trouble.
TIMEOUT_SECONDS: Final = 2.0
ATTEMPTS: Final = 2
_FUNCTION_ARN: Final = re.compile(r"arn:[a-z0-9-]+:lambda:(?P<region>[a-z0-9-]+):")


def region_of(function: str) -> str | None:
    """The region that the ARN of a function names; None for a name, which is of the own region.

    >>> region_of("arn:aws:lambda:eu-west-1:123456789012:function:far")
    'eu-west-1'
    >>> region_of("crawlfleet-aws-large-consumer")
    """
    found = _FUNCTION_ARN.match(function)
    return found["region"] if found else None


def lambda_client(
    function: str, *, timeout_seconds: float = TIMEOUT_SECONDS, attempts: int = ATTEMPTS
) -> Any:
    """A client of ``lambda`` that reaches a function, wherever its ARN says that it is."""
    return client(
        "lambda",
        region=region_of(function),
        timeout_seconds=timeout_seconds,
        attempts=attempts,
    )


def client(
    service: str,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    attempts: int = ATTEMPTS,
    **credentials: str,
) -> Any:
    """Make a thread-safe client of botocore.

    Args:
        service: Such as ``ssm``.
        region: Which one's; None leaves that to the environment, where a function runs.
        endpoint_url: Where it is; None leaves that to the usual ``AWS_*`` variables.
        timeout_seconds: For connecting, and for each wait for an answer.
        attempts: Tries in all, the first one counted.
        credentials: Of botocore, where not left to the environment.
    """
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(
        connect_timeout=timeout_seconds,
        read_timeout=timeout_seconds,
        retries={"total_max_attempts": attempts, "mode": "standard"},
    )
    # A session is not safe to make clients from in several threads; what it has read is.
    session = get_session()
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    options: dict[str, Any] = dict(credentials)
    if region is not None:
        options["region_name"] = region
    return session.create_client(service, endpoint_url=endpoint_url, config=config, **options)


@cache
def _loader(data_path: str | None) -> Any:
    """Make what reads AWS's description of itself: once, as that takes a tenth of a second."""
    from botocore.loaders import create_loader

    return create_loader(data_path)
