"""Lease tokens: they name their worker, so that its leases can be found when it is dead."""


def new_token(worker: str, nonce: str, number: int) -> str:
    """A token for the ``number``-th lease of one run of a worker.

    Lambda may run one invocation twice, under one id: the nonce keeps their leases apart.

    >>> new_token("w1", "9f3c", 12)
    'w1.9f3c.12'
    """
    return f"{worker}.{nonce}.{number}"


def worker_of(token: str) -> str:
    """Whose token it is.

    >>> worker_of("eu.w1.9f3c.12")
    'eu.w1'
    """
    return token.rsplit(".", 2)[0]


def is_of(token: str, worker: str) -> bool:
    """Whether the token is one of that worker's.

    >>> is_of("eu.w1.9f3c.12", "eu.w1"), is_of("eu.w1.9f3c.12", "eu")
    (True, False)
    """
    return token.startswith(f"{worker}.") and worker_of(token) == worker
