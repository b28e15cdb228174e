"""Names tests use of versions of the configuration."""

from crawlfleet.config.documents.history import HistoryTerms
from crawlfleet.config.versions.models import Note
from crawlfleet.config.versions.mongo import MongoVersions
