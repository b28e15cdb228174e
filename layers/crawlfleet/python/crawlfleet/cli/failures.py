"""Explain errors at a terminal: a sentence, the next step, an exit code."""

from collections.abc import Mapping
from typing import Final

from crawlfleet.cli.console import Exit, note
from crawlfleet.crawling.trials.remote import LARGEST_PAGE
from crawlfleet.kernel.errors import (
    BacklogFullError,
    ConfigError,
    ConflictError,
    ConnectFailedError,
    CrawlfleetError,
    FetchTimeoutError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    NotOperatorError,
    QuotaExceededError,
    RobotsDeniedError,
    RobotsUnknownError,
    StoreUnavailableError,
    UnknownBizError,
    UnknownRuleError,
    UnknownTenantError,
)
from crawlfleet.requests.models import JOB_LIFE


class NoRoomError(BacklogFullError):
    """A biz did not take all of a file within the time that was given."""


class UnknownJobError(NotFoundError):
    """Nothing was submitted under the job that was asked for, or too long ago."""


class UnknownPageError(NotFoundError):
    """Nothing is known of the page that was asked for."""


class UnknownSegmentError(NotFoundError):
    """The requested segment has no seed."""


_SERVICE: Final = (
    "Is it up? `crawlfleet up` starts a local one; --api-url or CRAWLFLEET_API_URL says where "
    "another one is."
)
_ELSEWHERE: Final = (
    "Is that the right address? --api-url or CRAWLFLEET_API_URL says where the API is; "
    "`crawlfleet up` prints that of a local one."
)
_IDS: Final = "An id is what `crawlfleet submit` printed; `crawlfleet requests BIZ` lists them."


_SPIDERS: Final = "`crawlfleet spider list BIZ` lists spiders"

#: What to do next where it depends on what the command is about.
_NEXT: Final[Mapping[tuple[str, type[CrawlfleetError]], str]] = {
    ("spider", NotFoundError): f"{_SPIDERS}, `crawlfleet spider versions BIZ NAME` their versions.",
    ("spider", ConflictError): "`crawlfleet schedule list BIZ` lists schedules with what they run.",
    ("spider", QuotaExceededError): f"{_SPIDERS}; delete those that nobody starts any more.",
    ("schedule", NotFoundError): f"`crawlfleet schedule list BIZ` lists schedules; {_SPIDERS}.",
    ("schedule", ConflictError): (
        "`crawlfleet job show BIZ JOB` shows how far that one is; wait for its end, or cancel it."
    ),
    ("job", NotFoundError): f"`crawlfleet job list BIZ` lists jobs; {_SPIDERS}.",
    ("job", ConflictError): "`crawlfleet job show BIZ NAME` shows what has that name.",
    ("job", KeyReusedError): "A key is for one job: give another one to start this one too.",
    ("job", QuotaExceededError): (
        "`crawlfleet job list BIZ` lists them, `crawlfleet job cancel BIZ NAME` ends one; "
        "`open_jobs` in the biz's document says how many there may be."
    ),
    ("demands", NotFoundError): (
        "`crawlfleet demands BIZ` lists what was learnt: a run is, about a minute after its job "
        "has ended."
    ),
}


def report(error: CrawlfleetError, command: str = "") -> int:
    """Say on standard error what went wrong and what to do next; the exit code.

    ``command`` is the one that failed, by its first word.
    """
    code, hint = judge(error, command)
    problems = error.problems if isinstance(error, ConfigError | InvalidRequestError) else ()
    for line in map(str, problems or (str(error) or type(error).__name__,)):
        note(f"crawlfleet: {line}")
    after = getattr(error, "retry_after_seconds", None)
    if after:
        note(f"It asks to come back in {after:g} s (Retry-After).")
    if hint:
        note(hint)
    return code


def judge(error: CrawlfleetError, command: str = "") -> tuple[Exit, str]:
    """Return the exit code and the next step for an error."""
    from crawlfleet.sdk.errors import (
        ApiError,
        CallTooLargeError,
        NoApiError,
        UnavailableError,
        UncertainError,
        UnreachableError,
        WaitTimeoutError,
    )

    meanings: tuple[tuple[type[CrawlfleetError], Exit, str], ...] = (
        (UnreachableError, Exit.UNREACHABLE, _SERVICE),
        (NoApiError, Exit.UNREACHABLE, _ELSEWHERE),
        (
            CallTooLargeError,
            Exit.BAD_INPUT,
            (
                f"Send less at once: a page to try a rule on may have {LARGEST_PAGE:,} bytes, and "
                "larger ones can be tried without --remote; a call has a few megabytes in all."
            ),
        ),
        (UnavailableError, Exit.UNREACHABLE, "It asks to come back later: try again in a minute."),
        (
            UncertainError,
            Exit.FAILED,
            "Repeat it with that --idempotency-key: what has arrived is not stored twice.",
        ),
        (
            WaitTimeoutError,
            Exit.TIME_OUT,
            (
                "Work on it goes on: see `crawlfleet job show BIZ NAME`, or wait longer with "
                "--timeout."
            )
            if command == "job"
            else "Work on them goes on: see `crawlfleet stats BIZ`, or wait longer with --timeout.",
        ),
        (
            UnknownJobError,
            Exit.NOT_FOUND,
            (
                "A job is what `submit --job` or the fire of a schedule named. Its counters are "
                f"kept for {JOB_LIFE.days} days after its requests."
            ),
        ),
        (
            UnknownPageError,
            Exit.NOT_FOUND,
            (
                "Pages are remembered once they are read, where the biz's document has a "
                "`recrawl`: submit it, and ask again when it is done."
            ),
        ),
        (UnknownSegmentError, Exit.NOT_FOUND, "`crawlfleet seeds totals BIZ` counts them."),
        (
            NotFoundError,
            Exit.NOT_FOUND,
            (
                "See `crawlfleet requests BIZ` or `crawlfleet schedule list BIZ`; requests expire, "
                "and dead letters can be purged."
            ),
        ),
        (
            UnknownBizError,
            Exit.NOT_FOUND,
            "A biz is a document of the configuration: see `crawlfleet config push --help`.",
        ),
        (
            UnknownTenantError,
            Exit.BAD_INPUT,
            "Check the key: --api-key, CRAWLFLEET_API_KEY or .crawlfleet/local.json.",
        ),
        (
            NotOperatorError,
            Exit.BAD_INPUT,
            "Use an operator's key, or ask for a biz: `crawlfleet hosts BIZ`, `stats`, `workers`.",
        ),
        (ConflictError, Exit.FAILED, "`crawlfleet status BIZ ID` shows what became of it."),
        (
            KeyReusedError,
            Exit.BAD_INPUT,
            "A key, or a client id, is for one submission: give another one to submit this too.",
        ),
        (
            NoRoomError,
            Exit.TIME_OUT,
            "Wait longer with --timeout, or submit later what comes after those: it was not sent.",
        ),
        (
            BacklogFullError,
            Exit.FAILED,
            "It takes more when its workers have caught up; with --file that is waited for.",
        ),
        (
            QuotaExceededError,
            Exit.FAILED,
            "Wait until some jobs have ended, or delete what is no longer needed.",
        ),
        (
            RobotsDeniedError,
            Exit.FAILED,
            (
                "A worker would not ask for it either. Try the rule on a saved page, or with "
                "--ignore-robots where the site is yours or has agreed."
            ),
        ),
        (
            RobotsUnknownError,
            Exit.FAILED,
            (
                "A worker would wait until it can be read. Try again in a minute, or try the rule "
                "on a saved page."
            ),
        ),
        (StoreUnavailableError, Exit.UNREACHABLE, "Is its address right, and is it up?"),
        (ConnectFailedError, Exit.UNREACHABLE, "Is the address right, and is its site up?"),
        (
            FetchTimeoutError,
            Exit.UNREACHABLE,
            "Try again in a minute, or give it more time in the biz's document.",
        ),
        (ConfigError, Exit.BAD_INPUT, ""),
        (InvalidRequestError, Exit.BAD_INPUT, ""),
        (
            UnknownRuleError,
            Exit.BAD_INPUT,
            "The rules of a biz are in its configuration: see `crawlfleet config pull --help`.",
        ),
        (ApiError, Exit.FAILED, f"Does a Crawlfleet API answer there? {_SERVICE}"),
    )
    if isinstance(error, InvalidRequestError) and all(
        each.field in {"id", "request_id"} for each in error.problems
    ):
        return Exit.BAD_INPUT, _IDS
    for kind, code, hint in meanings:
        if isinstance(error, kind):
            return code, _NEXT.get((command, kind), hint)
    return Exit.FAILED, ""
