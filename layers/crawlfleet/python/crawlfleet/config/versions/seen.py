"""Keep revisions that came into force past the API, as whoever looks regularly sees them."""

from dataclasses import dataclass, field
from datetime import datetime

from crawlfleet.config.in_force import SsmConfig
from crawlfleet.config.versions.mongo import MongoVersions


@dataclass(slots=True)
class SeenVersions:
    """Keep each revision that an environment reads, once."""

    config: SsmConfig
    versions: MongoVersions
    _kept: str = field(default="", init=False)

    def keep(self, now: datetime) -> bool:
        """Keep the newest revision that was read; return whether nobody had kept it.

        Raises:
            StoreUnavailableError: MongoDB does not answer; a later call keeps it.
        """
        terms = self.config.current().stage.history
        revision, documents = self.config.stored()
        if revision == self._kept:
            return False
        is_new = self.versions.keep(revision, documents, now, terms)
        self._kept = revision
        return is_new
