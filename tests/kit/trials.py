"""Names tests use of trials of rules."""

from crawlfleet.flows import trial_reading, trials
from crawlfleet.flows.trials import TrialPorts, tried
from crawlfleet.flows.trying import TryingPorts, try_rule
from crawlfleet.model.trial import Question, TrialWanted, Tried
