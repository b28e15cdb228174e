"""Names tests use of trials of rules."""

from crawlfleet.crawling.trials.guess import name_of
from crawlfleet.crawling.trials.messages import (
    LARGEST_BYTES,
    TRIAL_SECONDS,
    Answer,
    Learnt,
    Question,
    Terms,
    Tried,
    Wanted,
)
from crawlfleet.crawling.trials.pages import MOST_READ
from crawlfleet.crawling.trials.remote import MOST_STEPS, TrialService, TrialWanted
from crawlfleet.crawling.trials.service import RECORD_BYTES, TrialRunner
