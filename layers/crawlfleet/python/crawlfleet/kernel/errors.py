"""The error tree. Every journey raises from here and nothing else.

::

    CrawlfleetError
    ├─ RejectedError   the caller must change something: InvalidRequest, UnknownBiz, UnknownTenant,
    │                  NotOperator, UnknownRule, NotFound, Conflict, KeyReused, BacklogFull (of it
    │                  TenantSuspended), QuotaExceeded
    ├─ FetchError      the web's answer: FetchTimeout*, ConnectFailed*, NoProxy*, Throttled*,
    │                  ServerFault*, PageGone, RobotsDenied, RobotsUnknown*, AddressRefused,
    │                  TooLarge, UnwantedType, NoReader*
    ├─ ExtractError    the rule could not read the page; the page is kept
    ├─ ReaderKilledError  reading the page ended the process that did it; the page is kept
    ├─ LeaseLostError  another worker owns the request now: stop, write nothing
    ├─ StoreError      MongoDB, Redis or AWS: StoreUnavailable*, of it TrialsBusy* and TrialLate*,
    │                  LimitRefused, MessageRefused, StoreConflict
    ├─ IdsError        no ids can be issued: WorkerNumbersExhausted*, ClockSteppedBack*
    └─ ConfigError     wrong settings: refused whole, all errors at once; NoConfiguration

Each of these names ends in ``Error``. ``*`` marks what is worth another try: ``retryable`` is true
there. Retry policy reads that attribute and nothing else; no message is ever searched.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import msgspec

if TYPE_CHECKING:
    from crawlfleet.kernel.page import Answer


class Problem(msgspec.Struct, frozen=True):
    """A validation error: its field (``urls[3].url``) and what is wrong with it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class CrawlfleetError(Exception):
    """Base of every error of this package."""

    retryable: ClassVar[bool] = False


class RejectedError(CrawlfleetError):
    """The caller must change something before asking again."""


class InvalidRequestError(RejectedError):
    """One or more fields are wrong; nothing was stored."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidRequestError":
        """Make the error of a single field."""
        return cls((Problem(field, message),))


class UnknownBizError(RejectedError):
    """The tenant has no biz of that name."""


class UnknownTenantError(RejectedError):
    """The API key belongs to no tenant."""


class NotOperatorError(RejectedError):
    """The call concerns all tenants, and the key's tenant is no operator."""


class UnknownRuleError(RejectedError):
    """The biz has no rule of that name."""


class NotFoundError(RejectedError):
    """Nothing is stored under that id or name."""


class ConflictError(RejectedError):
    """The thing exists, in a state that forbids the change."""


class KeyReusedError(RejectedError):
    """The idempotency key, or the client's id, stands for another submission."""


class BacklogFullError(RejectedError):
    """The biz, or its tenant, has as much, or gets it as fast, as it may; nothing was stored.

    ``retry_after_seconds`` is when it makes sense to ask again. ``limit`` is the setting that
    stands against it, of which there is ``used`` where ``allowed`` is the most.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float,
        limit: str = "",
        used: float | None = None,
        allowed: float | None = None,
    ) -> None:
        self.retry_after_seconds = retry_after_seconds
        self.limit, self.used, self.allowed = limit, used, allowed
        super().__init__(message)


class TenantSuspendedError(BacklogFullError):
    """An operator has suspended the tenant: nothing of it is taken until it is resumed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after_seconds=30.0)


class QuotaExceededError(RejectedError):
    """The tenant has used up what it was given."""


class FetchError(CrawlfleetError):
    """The page could not be had. ``status`` is the HTTP status, 0 where there was no answer.

    ``answer`` is what the site said, if anything: the last answer on the way, also where that was a
    redirect to a place that gave none. ``peers`` are the addresses that were asked.
    """

    peers: tuple[str, ...] = ()

    def __init__(self, message: str, *, status: int = 0, answer: "Answer | None" = None) -> None:
        self.status = status
        self.answer = answer
        super().__init__(message)


class FetchTimeoutError(FetchError):
    """Connecting, the first byte or the whole took longer than the biz allows."""

    retryable = True


class ConnectFailedError(FetchError):
    """Name resolution, the connection or TLS failed."""

    retryable = True


class NotReadyError(FetchError):
    """Something that the operator is to set up is not there; nothing was asked for.

    That is no fault of the request, which waits for ``again_seconds``.
    """

    retryable = True

    def __init__(self, message: str, *, again_seconds: float) -> None:
        self.again_seconds = again_seconds
        super().__init__(message)


class NoProxyError(NotReadyError):
    """The pool to leave through has no proxies now."""


class NoSecretError(NotReadyError):
    """A secret that a header or a spider refers to cannot be read now."""


class NoReaderError(NotReadyError):
    """No process that reads pages can be started now; pages are never read without one."""


class ThrottledError(FetchError):
    """The site asks for fewer requests."""

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        status: int = 429,
        retry_after_seconds: float | None = None,
        answer: "Answer | None" = None,
    ) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message, status=status, answer=answer)


class ServerFaultError(FetchError):
    """The site failed, or answered with something that is no HTTP."""

    retryable = True


class PageGoneError(FetchError):
    """The site says there is no such page for us; asking again will not help."""


class RobotsDeniedError(FetchError):
    """The site's robots.txt asks not to fetch this page."""


class RobotsUnknownError(FetchError):
    """The site's robots.txt cannot be read now, so nothing may be asked for (RFC 9309, 2.3.1.4)."""

    retryable = True


class AddressRefusedError(FetchError):
    """The host leads to an address, or the URL has a port, that may not be asked.

    That is a loopback, private, link-local or metadata address, or one of the platform's stores.
    """


class TooLargeError(FetchError):
    """The body, or the chain of redirects, is longer than the biz allows."""


class UnwantedTypeError(FetchError):
    """The page is of a media type that the biz does not read; its body was not."""


class ExtractError(CrawlfleetError):
    """The rule could not read the page. ``field`` is the rule's field, dotted where nested.

    ``answer`` is the page, for whoever looks why; the worker adds it. ``seconds`` are the CPU time
    that reading it took, where that is known.
    """

    def __init__(self, field: str, message: str, seconds: float = 0.0) -> None:
        self.field, self.seconds = field, seconds
        self.answer: Answer | None = None
        super().__init__(f"{field}: {message}")

    @property
    def problem(self) -> Problem:
        """Return the same as a problem of a field."""
        return Problem(self.field, str(self).removeprefix(f"{self.field}: "))


class ReaderKilledError(CrawlfleetError):
    """Reading the page ended the process that reads pages, by its rule or by what it holds.

    ``limit`` is ``cpu``, ``memory``, ``time`` or ``crash``; ``answer`` and ``seconds`` as in
    ExtractError.
    """

    def __init__(self, limit: str, message: str, seconds: float = 0.0) -> None:
        self.limit, self.seconds = limit, seconds
        self.answer: Answer | None = None
        super().__init__(message)


class LeaseLostError(CrawlfleetError):
    """The lease was lost: another worker owns the request now. Stop, write nothing."""


class StoreError(CrawlfleetError):
    """A part behind a port failed."""


class StoreUnavailableError(StoreError):
    """The part did not answer in time. ``part`` is its name, such as ``mongodb``."""

    retryable = True

    def __init__(self, part: str, message: str) -> None:
        self.part = part
        super().__init__(f"{part}: {message}")


class TrialsBusyError(StoreUnavailableError):
    """As many rules are tried as the stage has room for: no fault, but a wait.

    The message is for the caller, and says what else there is to do.
    """

    def __init__(self, retry_after_seconds: float) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(
            "trials",
            f"too many rules are tried now: come back in {retry_after_seconds:g} s; or try the "
            "rule on a saved page where you are, by `crawlfleet rule try` without --remote. An "
            "operator may raise the stage's trials_concurrency.",
        )


class TrialLateError(StoreUnavailableError):
    """A rule was not tried in the time that whoever asks waits. The message is for the caller."""

    def __init__(self, seconds: float) -> None:
        super().__init__("trials", f"the trial took longer than {seconds:g} seconds; try again")


class LimitRefusedError(StoreError):
    """The account does not give the workers' function as many invocations as were asked for."""


class MessageRefusedError(StoreError):
    """The message is never taken by what sends messages; another one may be."""


class StoreConflictError(StoreError):
    """The stored state is not the expected one."""


class IdsError(CrawlfleetError):
    """No ids can be issued."""


class WorkerNumbersExhaustedError(IdsError):
    """Every worker number is leased by a live environment."""

    retryable = True


class ClockSteppedBackError(IdsError):
    """The clock is further behind the ids already issued than it is sensible to wait."""

    retryable = True


class ConfigError(CrawlfleetError):
    """Wrong settings. Nothing of them is in force; ``problems`` names every error."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class NoConfigurationError(ConfigError):
    """The config centre is empty: nothing was pushed yet, or all of it was taken away."""
