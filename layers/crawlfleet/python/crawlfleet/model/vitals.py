"""How the platform is and what it runs, as anybody may know it (SPEC.md D11)."""

from datetime import datetime

import msgspec

from crawlfleet.model.sample import WorkersSample
from crawlfleet.model.tick import Ticked


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What a deep health check finds. Nothing of it is secret: no address, no name of a tenant.

    Attributes:
        at: When it was found; callers compare it with their own clock.
        version: Of the code that answers.
        stage: Where.
        revision: The configuration in force; empty for none.
        config_digest: Of its documents (policy.digest); empty for none.
        config_refused: Whether a newer configuration is refused.
        parts: ``ok`` or what is wrong, by part.
        workers: None where Redis does not say.
        ticked: The scheduler's latest tick; None where Redis does not say.
    """

    at: datetime
    version: str
    stage: str
    revision: str = ""
    config_digest: str = ""
    config_refused: bool = False
    parts: dict[str, str] = {}
    workers: WorkersSample | None = None
    ticked: Ticked | None = None
