"""What the API asks of whoever wires it about rules that are tried."""

from typing import Protocol

from crawlfleet.model.trial import TrialWanted, Tried


class TrialOperations(Protocol):
    """Trying rules, for the tenant of the call's API key."""

    def try_rule(self, tenant: str, biz: str, wanted: TrialWanted) -> Tried:
        """What a rule yields of a page; nothing is stored."""
        ...
