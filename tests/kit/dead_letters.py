"""Names tests use of dead letters: models, store and service."""

from crawlfleet.adapters.mongo.dead_letters import MongoDeadLetters
from crawlfleet.flows import dead_letters
from crawlfleet.flows.dead_letters import Changed, DeadLetterPorts
from crawlfleet.model.letter import LetterFilter, LetterPage, host_of
from crawlfleet.ports import DeadLetters
