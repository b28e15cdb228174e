"""Why a request or a URL is where it is: the decisions, and where it stands (SPEC.md H6)."""

from datetime import datetime
from enum import StrEnum

import msgspec

from crawlfleet.requests.models import Tracked

#: What facts are made of.
Fact = str | int | float | bool | None


class StepKind(StrEnum):
    """What a step is about: the request itself, its whole lane, a seed or a visit of its URL."""

    REQUEST = "request"
    QUEUE_KEY = "lane"
    SEED = "seed"
    VISIT = "visit"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One decision. ``state`` is what the request became by it; None where it stayed as it was."""

    at: datetime
    kind: StepKind
    by: str
    why: str
    state: int | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request stands now: a sentence for people, its facts for programs."""

    sentence: str
    facts: dict[str, Fact]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The steps in the order of time; ``missing`` says what of the chain is not kept."""

    tracked: Tracked
    steps: tuple[Step, ...]
    standing: Standing
    missing: str | None = None


class UrlExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The same of a URL: of its seeds, their last request and its page. ``keys`` are in hex."""

    url: str
    keys: tuple[str, ...]
    steps: tuple[Step, ...]
    standing: Standing
    missing: str | None = None
