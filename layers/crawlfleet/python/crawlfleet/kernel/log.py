"""Log what is wrong but not fatal, in one place for all of the product.

Facts are fields of the line (``extra``), so that a log group can be asked for them. The names of
loggers are those of modules, below the product's; a function gives that one its formatter.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from crawlfleet.kernel.names import PRODUCT

_log: Final = logging.getLogger(PRODUCT)
_counter: ContextVar[Callable[[Exception], None] | None] = ContextVar("counter", default=None)


def warn(message: str, error: Exception) -> None:
    """Log what went wrong without stopping the work; count it where somebody counts."""
    _log.warning(message, extra={"error": type(error).__name__, "reason": str(error)})
    if count := _counter.get():
        count(error)


@contextmanager
def counted(count: Callable[[Exception], None]) -> Iterator[None]:
    """Hand ``count`` the error of each warning of this thread until the block ends."""
    token = _counter.set(count)
    try:
        yield
    finally:
        _counter.reset(token)
