"""The warnings that the product gives while a test runs, as its logger sees them."""

import logging
from typing import Final

from tests.kit.kernel import PRODUCT

#: The message of each warning of this process, the name of its error's class, and its reason.
_ALL: Final[list[tuple[str, str, str]]] = []


def _keep(record: logging.LogRecord) -> bool:
    if record.levelno == logging.WARNING:
        _ALL.append((record.getMessage(), record.error, record.reason))  # type: ignore[attr-defined]
    return True


# A filter and no handler: functions give this logger theirs where it has none.
logging.getLogger(PRODUCT).addFilter(_keep)


def named(error: Exception) -> tuple[str, str]:
    """Name an error as the log does: by its class and its reason."""
    return type(error).__name__, str(error)


class Warned:
    """The warnings since this was made."""

    def __init__(self) -> None:
        self._from = len(_ALL)

    @property
    def texts(self) -> list[str]:
        return [f"{message}: {reason}" for message, _, reason in _ALL[self._from :]]

    @property
    def errors(self) -> list[tuple[str, str]]:
        return [(error, reason) for _, error, reason in _ALL[self._from :]]
