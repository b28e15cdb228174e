"""Names tests use of trials of rules."""

from crawlfleet.flows.trial_reading import MOST_READ
from crawlfleet.flows.trials import RECORD_BYTES, TrialPorts, tried
from crawlfleet.flows.trying import TryingPorts, try_rule
from crawlfleet.model.trial import Question, TrialWanted, Tried
