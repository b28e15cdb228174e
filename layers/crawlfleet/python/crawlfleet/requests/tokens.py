"""Tokens of leases: each names its worker, the worker's run, and the lease."""


def new_token(worker: str, nonce: str, number: int) -> str:
    """Make a token for the ``number``-th lease of one run of a worker.

    Lambda may run one invocation twice, under one id: the nonce keeps their leases apart.

    >>> new_token("w1", "9f3c", 12)
    'w1.9f3c.12'
    """
    return f"{worker}.{nonce}.{number}"


def worker_of(token: str) -> str:
    """Return the worker whose token it is.

    >>> worker_of("eu.w1.9f3c.12")
    'eu.w1'
    """
    return token.rsplit(".", 2)[0]


def is_of(token: str, worker: str) -> bool:
    """Tell whether the token is that worker's.

    >>> is_of("eu.w1.9f3c.12", "eu.w1"), is_of("eu.w1.9f3c.12", "eu")
    (True, False)
    """
    return token.startswith(f"{worker}.") and worker_of(token) == worker
