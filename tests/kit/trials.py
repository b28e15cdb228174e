"""Names tests use of trials of rules."""

from crawlfleet.crawling.trials.remote import Question, TrialWanted, Tried, try_rule
from crawlfleet.crawling.trials.service import MOST_READ, RECORD_BYTES, TrialRunner
