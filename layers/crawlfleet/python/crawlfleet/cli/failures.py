"""Explain errors at a terminal: a sentence, the next step, an exit code."""

from collections.abc import Mapping
from typing import Any, Final

import click

from crawlfleet.cli.console import Exit, note
from crawlfleet.crawling.trials.messages import LARGEST_PAGE
from crawlfleet.kernel import errors
from crawlfleet.kernel.advice import filled
from crawlfleet.kernel.errors import (
    ConflictError,
    CrawlfleetError,
    InvalidRequestError,
    NotFoundError,
)
from crawlfleet.kernel.validation import named
from crawlfleet.requests.models import JOB_LIFE


class NamingGroup(click.Group):
    """A group of commands that names those there are where one is unknown, the closest first."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError (there is none of that name)."""
        word = args[0] if args else ""
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            there = named(self.list_commands(ctx), word)
            raise click.UsageError(f"No such command {word!r}; there are {there}.", ctx)
        return super().resolve_command(ctx, args)


class NoRoomError(errors.BacklogFullError):
    """A biz did not take all of a file within the time that was given."""


class UnknownJobError(NotFoundError):
    """Nothing was submitted under the job that was asked for, or too long ago."""


class RunningError(ConflictError):
    """A schedule starts no job, as one of its own has not ended."""

    def __init__(self, message: str, job: str) -> None:
        super().__init__(message)
        self.job = job


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

#: Parameters of commands that name what advice is about, and its words for these.
_WORDS: Final[Mapping[str, str]] = {
    "biz": "BIZ",
    "bizs": "BIZ",
    "name": "NAME",
    "job": "JOB",
    "request_id": "ID",
    "ids": "ID",
    "rule": "RULE",
    "tenant": "TENANT",
    "url": "URL",
    "urls": "URL",
}
#: What the API says of a start that nothing gives, and what gives one.
_MISSING: Final = "missing, and so"
_PAGES: Final = "Give pages by --url or --file, or name a --spider that begins by itself."
#: How the API begins to say that a value is for a place that there is not.
_NO_PLACE: Final = "there is no such place"
_SPIDERS: Final = "`crawlfleet spider list BIZ` lists spiders"

#: What to do next where it depends on what the command is about.
_NEXT: Final[Mapping[tuple[str, type[CrawlfleetError]], str]] = {
    ("spider", NotFoundError): f"{_SPIDERS}, `crawlfleet spider versions BIZ NAME` their versions.",
    ("spider", ConflictError): "`crawlfleet schedule list BIZ` lists schedules with what they run.",
    ("spider", errors.QuotaExceededError): f"{_SPIDERS}; delete those that nobody starts any more.",
    ("schedule", NotFoundError): f"`crawlfleet schedule list BIZ` lists schedules; {_SPIDERS}.",
    ("schedule", ConflictError): (
        "`crawlfleet job show BIZ JOB` shows how far that one is; wait for its end, or cancel it."
    ),
    ("job", NotFoundError): f"`crawlfleet job list BIZ` lists jobs; {_SPIDERS}.",
    ("job", ConflictError): "`crawlfleet job show BIZ NAME` shows what has that name.",
    ("job", errors.KeyReusedError): "A key is for one job: give another one to start this one too.",
    ("job", errors.QuotaExceededError): (
        "`crawlfleet job list BIZ` lists them, `crawlfleet job cancel BIZ JOB` ends one; "
        "`open_jobs` in the biz's document says how many there may be. Where it is a quota that is "
        "used up, `crawlfleet quota show` says which, and when it goes on."
    ),
    ("subscription", NotFoundError): (
        "`crawlfleet subscription list BIZ` lists the subscriptions of a biz."
    ),
    ("subscription", ConflictError): (
        "`crawlfleet subscription show BIZ NAME` shows it with its revision."
    ),
    ("subscription", errors.QuotaExceededError): (
        "`crawlfleet subscription list BIZ` lists them, `crawlfleet subscription end BIZ NAME` "
        "ends one; `ceilings.subscriptions` in the tenant's document says how many there may be."
    ),
    ("source", NotFoundError): (
        "`crawlfleet source list BIZ` lists channels and feeds that the biz subscribes to."
    ),
    ("delivery", NotFoundError): "`crawlfleet delivery list BIZ` lists what was given up on.",
    ("delivery", ConflictError): "`crawlfleet delivery list BIZ` lists what was given up on.",
    ("quota", NotFoundError): "`crawlfleet job list BIZ` lists jobs.",
    ("quota", ConflictError): "`crawlfleet job show BIZ JOB` shows the job.",
    ("config", NotFoundError): "`crawlfleet config history` lists the versions that are kept.",
    ("config", ConflictError): "`crawlfleet config history` shows who changed it since.",
    ("tenant", NotFoundError): "`crawlfleet tenant list` lists tenants.",
    ("tenant", ConflictError): "`crawlfleet tenant show TENANT` shows it with its revision.",
    ("seeds", ConflictError): "`crawlfleet seeds totals BIZ` counts them.",
    ("demands", NotFoundError): (
        "`crawlfleet demands BIZ` lists what was learnt: a run is, about a minute after its job "
        "has ended."
    ),
}


def names_in(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the names that a command was given, by the capital words that advice has for them.

    Several of a kind are none: advice is about one.

    >>> names_in({"biz": "news", "request_id": "17", "urls": ("a", "b"), "limit": 3, "rule": None})
    {'BIZ': 'news', 'ID': '17'}
    """
    names = {}
    for parameter, value in parameters.items():
        word = _WORDS.get(parameter)
        one = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        if word is not None and one and isinstance(one, str):
            names[word] = one
    return names


def report(
    error: CrawlfleetError, command: str = "", parameters: Mapping[str, Any] | None = None
) -> int:
    """Say on standard error what went wrong and what to do next; the exit code.

    ``command`` is the one that failed, by its first word, ``parameters`` what it was given.
    """
    code, hint = judge(error, command)
    problems = error.problems if isinstance(error, errors.ConfigError | InvalidRequestError) else ()
    for line in map(str, problems or (str(error) or type(error).__name__,)):
        note(f"crawlfleet: {line}")
    after = getattr(error, "retry_after_seconds", None)
    if after:
        note(f"It asks to come back in {after:g} s (Retry-After).")
    if hint:
        note(filled(hint, names_in(parameters or {}) | _waited_for(error)))
    return code


def _waited_for(error: CrawlfleetError) -> dict[str, str]:
    """Return the names of a job that was waited for, or waits: the platform may have named it."""
    from crawlfleet.sdk.errors import WaitTimeoutError

    if isinstance(error, RunningError):
        return {"JOB": error.job}
    if not isinstance(error, WaitTimeoutError):
        return {}
    return {word: name for word, name in (("BIZ", error.biz), ("NAME", error.job)) if name}


def _can_be_filled(problem: errors.Problem) -> bool:
    """Tell whether a problem is of what goes into a place that there is."""
    return problem.field.startswith("values.") and not problem.message.startswith(_NO_PLACE)


def _is_without_pages(problem: errors.Problem) -> bool:
    """Tell whether a problem is that nothing says where a job begins."""
    return problem.field in {"start", "urls"} and _MISSING in problem.message


def judge(error: CrawlfleetError, command: str = "") -> tuple[Exit, str]:
    """Return the exit code and the next step for an error."""
    from crawlfleet.sdk import errors as sdk

    waiting = "Work on them goes on: see `crawlfleet stats BIZ`, or wait longer with --timeout."
    if isinstance(error, sdk.WaitTimeoutError) and error.job:
        waiting = (
            "Work on it goes on: see `crawlfleet job show BIZ NAME`, or go on waiting: "
            "`crawlfleet job wait BIZ NAME`."
        )
    meanings: Mapping[Exit, Mapping[type[CrawlfleetError], str]] = {
        Exit.UNREACHABLE: {
            sdk.UnreachableError: _SERVICE,
            sdk.NoApiError: _ELSEWHERE,
            sdk.UnavailableError: "It asks to come back later: try again in a minute.",
            errors.StoreUnavailableError: "Is its address right, and is it up?",
            errors.ConnectFailedError: "Is the address right, and is its site up?",
            errors.FetchTimeoutError: (
                "Try again in a minute, or give it more time in the biz's document."
            ),
        },
        Exit.BAD_INPUT: {
            sdk.CallTooLargeError: (
                f"Send less at once: a page to try a rule on may have {LARGEST_PAGE:,} bytes, and "
                "larger ones can be tried without --remote; a call has a few megabytes in all."
            ),
            errors.UnknownTenantError: (
                "Check the key: --api-key, CRAWLFLEET_API_KEY or .crawlfleet/local.json."
            ),
            errors.NotOperatorError: (
                "Use an operator's key, or ask for a biz: `crawlfleet hosts BIZ`, `stats`, "
                "`workers`."
            ),
            errors.TenantSuspendedError: (
                "What there is can be read. Who operates the platform resumes it: `suspended` in "
                "the tenant's document."
            ),
            errors.KeyReusedError: (
                "A key, or a client id, is for one submission: give another one to submit this too."
            ),
            errors.ConfigError: "",
            InvalidRequestError: "",
            errors.UnknownRuleError: (
                "The rules of a biz are in its configuration: see `crawlfleet config pull --help`."
            ),
        },
        Exit.FAILED: {
            sdk.UncertainError: (
                "Repeat it with that --idempotency-key: what has arrived is not stored twice."
            ),
            ConflictError: "`crawlfleet status BIZ ID` shows what became of it.",
            errors.BacklogFullError: (
                "It takes more when its workers have caught up; with --file that is waited for."
            ),
            errors.QuotaExceededError: (
                "Wait until some jobs have ended, or delete what is no longer needed."
            ),
            errors.RobotsDeniedError: (
                "A worker would not ask for it either. Try the rule on a saved page, or with "
                "--ignore-robots where the site is yours or has agreed."
            ),
            errors.RobotsUnknownError: (
                "A worker would wait until it can be read. Try again in a minute, or try the rule "
                "on a saved page."
            ),
            sdk.ApiError: f"Does a Crawlfleet API answer there? {_SERVICE}",
        },
        Exit.TIME_OUT: {
            sdk.WaitTimeoutError: waiting,
            NoRoomError: (
                "Wait longer with --timeout, or submit later what comes after those: it was not "
                "sent."
            ),
        },
        Exit.NOT_FOUND: {
            UnknownJobError: (
                "`crawlfleet job list BIZ` lists jobs; what a job's ledger counts is kept for "
                f"{JOB_LIFE.days} days after its requests."
            ),
            UnknownPageError: (
                "Pages are remembered once they are read, where the biz's document has a "
                "`recrawl`: submit it, and ask again when it is done."
            ),
            UnknownSegmentError: "`crawlfleet seeds totals BIZ` counts them.",
            NotFoundError: (
                "See `crawlfleet requests BIZ` or `crawlfleet schedule list BIZ`; requests expire, "
                "and dead letters can be purged."
            ),
            errors.UnknownBizError: (
                "A biz is a document of the configuration: see `crawlfleet config push --help`."
            ),
        },
    }
    if (
        isinstance(error, InvalidRequestError)
        and command in {"job", "schedule"}
        and (names := [each.field for each in error.problems if _can_be_filled(each)])
    ):
        place = names[0].removeprefix("values.").partition("[")[0]
        return Exit.BAD_INPUT, f"`--value {place}=...` fills it; given again, with one more value."
    if (
        isinstance(error, InvalidRequestError)
        and command in {"job", "schedule"}
        and any(map(_is_without_pages, error.problems))
    ):
        return Exit.BAD_INPUT, _PAGES
    if isinstance(error, InvalidRequestError) and all(
        each.field in {"id", "request_id"} for each in error.problems
    ):
        return Exit.BAD_INPUT, _IDS
    known = {kind: (code, hint) for code, of in meanings.items() for kind, hint in of.items()}
    for kind in type(error).__mro__:  # the most special kind that is known
        if kind in known:
            code, hint = known[kind]
            return code, _NEXT.get((command, kind), hint)
    return Exit.FAILED, ""
