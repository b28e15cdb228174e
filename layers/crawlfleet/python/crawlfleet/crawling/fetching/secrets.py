"""Read the secrets that headers and spiders refer to, in the worker that uses them (SPEC.md D13).

A text is kept for :data:`FRESH_SECONDS` and read again sooner where a site refuses it. While the
store does not answer the last text is used; one that is gone, or that this function may not read
any more, is used no longer. No error and no log line quotes a text.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Spider
from crawlfleet.config.documents.secret import filled_with, references
from crawlfleet.kernel.aws.clients import WRONG_SETUP
from crawlfleet.kernel.errors import ConfigError, NoSecretError, StoreUnavailableError
from crawlfleet.kernel.redaction import NO_SECRETS, Mask
from crawlfleet.kernel.urls import problem_with_headers

#: How long a text is used before it is read again, and how soon after a failure or a refusal.
FRESH_SECONDS: Final = 300.0
AGAIN_SECONDS: Final = 15.0
_MOST_KEPT: Final = 1_000
_log: Final = logging.getLogger(__name__)


def why_unread(error: Exception) -> str:
    """Explain why a secret cannot be read, without its error's text, which may quote it."""
    if isinstance(error, ConfigError):
        known = [each.message for each in error.problems if each.message in WRONG_SETUP.values()]
        if known:
            return known[0]
    if isinstance(error, StoreUnavailableError):
        return "the store of secrets does not answer"
    return type(error).__name__


def nothing_reads(tenant: str, name: str) -> str:
    """Read no secret: for whoever has none to send."""
    raise LookupError(f"{tenant} {name}")


@dataclass(slots=True, eq=False)
class _Kept:
    """A secret as it was last read."""

    text: str | None = field(default=None, repr=False)
    fault: str = ""
    read_at: float = float("-inf")
    stale_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SecretTexts:
    """The texts of tenants' secrets, for one event loop.

    ``read_secret`` gets tenant and name; it is called in a thread, must not cache, and may raise
    anything.
    """

    def __init__(
        self, read_secret: Callable[[str, str], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_secret, self._clock = read_secret, clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def __repr__(self) -> str:
        return f"SecretTexts(kept={len(self._kept)})"

    async def of(self, tenant: str, names: Iterable[str]) -> dict[str, str]:
        """Return the texts by name; NoSecretError where one cannot be had, which says why."""
        return {name: await self._text(tenant, name) for name in names}

    async def headers(self, tenant: str, names: Iterable[str]) -> dict[str, str]:
        """Return texts that headers can hold; raises as :meth:`of`."""
        texts = await self.of(tenant, names)
        for name, text in texts.items():
            if problem_with_headers({"X": text}) is not None:
                raise NoSecretError(
                    f"the secret {name!r} of tenant {tenant!r} is no header's value: it has control"
                    " characters, such as an end of line",
                    again_seconds=AGAIN_SECONDS,
                )
        return texts

    async def renewed(self, tenant: str, used: Mapping[str, str]) -> bool:
        """Read texts again that a site has refused; return whether one has changed.

        One that was read within :data:`AGAIN_SECONDS` is not: whoever is refused all the time must
        not ask all the time.
        """
        for name in used:
            known = self._known(tenant, name)
            known.stale_at = min(known.stale_at, known.read_at + AGAIN_SECONDS)
        try:
            return await self.of(tenant, used) != used
        except NoSecretError:
            return False

    async def filled(self, tenant: str, spider: Spider) -> tuple[Spider, Mask]:
        """Return a spider with the texts in its parameters, and their mask; raises as :meth:`of`.

        The version of one that was filled is none that anybody knows.
        """
        names = sorted({name for _, name in references(spider.parameters)})
        if not names:
            return spider, NO_SECRETS
        texts = await self.of(tenant, names)
        parameters: dict[str, Any] = filled_with(spider.parameters, texts)
        return replace(spider, parameters=parameters), Mask(texts.values())

    def _known(self, tenant: str, name: str) -> _Kept:
        known = self._kept.get((tenant, name))
        if known is None:
            known = self._kept[tenant, name] = _Kept()
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return known

    async def _text(self, tenant: str, name: str) -> str:
        known = self._known(tenant, name)
        if self._clock() >= known.stale_at:
            async with known.lock:
                if self._clock() >= known.stale_at:
                    await self._read(tenant, name, known)
        if known.text is None:
            raise NoSecretError(
                f"the secret {name!r} of tenant {tenant!r} cannot be read: {known.fault}; it is "
                f"read again every {AGAIN_SECONDS:g} s",
                again_seconds=AGAIN_SECONDS,
            )
        return known.text

    async def _read(self, tenant: str, name: str, known: _Kept) -> None:
        known.read_at = self._clock()
        known.stale_at = known.read_at + AGAIN_SECONDS
        try:
            text = await asyncio.to_thread(self._read_secret, tenant, name)
        except Exception as error:  # noqa: BLE001  whatever reads it; and its text may quote it
            known.fault = why_unread(error)
            if isinstance(error, ConfigError):
                known.text = None
            _log.warning(
                "the secret %r of tenant %r cannot be read: %s",
                *(name, tenant, known.fault),
                extra={"tenant": tenant, "secret": name},
            )
            return
        # What a file or an editor has put at its end.
        known.text, known.fault = text.strip(), ""
        known.stale_at = known.read_at + FRESH_SECONDS
