"""Names tests use of dead letters: models, store and service."""

from crawlfleet.kernel.urls import plain_host_of as host_of
from crawlfleet.requests.dead_letters.models import DeadLetterFilter, DeadLetterPage
from crawlfleet.requests.dead_letters.mongo import MongoDeadLetters
from crawlfleet.requests.dead_letters.service import Changed, DeadLetters
