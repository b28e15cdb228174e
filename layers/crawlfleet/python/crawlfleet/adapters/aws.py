"""How every AWS client of ours is made: explicit time-outs, few tries, the environment's addresses.

botocore's own defaults wait 60 s and try five times, which is longer than most functions live.
"""

from typing import Any, Final

#: A caller is waiting; AWS answers within tens of milliseconds or is in trouble.
TIMEOUT_SECONDS: Final = 2.0
ATTEMPTS: Final = 2


def client(
    service: str,
    *,
    endpoint_url: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    attempts: int = ATTEMPTS,
    **credentials: str,
) -> Any:
    """A thread-safe boto3 client.

    Args:
        service: Such as ``ssm``.
        endpoint_url: Where it is; None leaves that to the usual ``AWS_*`` variables.
        timeout_seconds: For connecting, and for each wait for an answer.
        attempts: Tries in all, the first one counted.
        credentials: ``region_name`` and the like, where not left to the environment.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=timeout_seconds,
        read_timeout=timeout_seconds,
        retries={"total_max_attempts": attempts, "mode": "standard"},
    )
    # boto3's default session is shared and not safe to make clients from in several threads.
    session = boto3.session.Session()
    options: dict[str, Any] = dict(credentials)
    return session.client(service, endpoint_url=endpoint_url, config=config, **options)  # type: ignore[call-overload]
