"""Names tests use of bidding for jobs: offers, auctions, bidders, probes."""

from crawlfleet.adapters.http_prober import HttpProber
from crawlfleet.adapters.redis_queue import board_keys as board_keys_module
from crawlfleet.adapters.redis_queue.board import RedisBoard
from crawlfleet.adapters.redis_queue.board_keys import applications_key, board_keys
from crawlfleet.adapters.redis_queue.probes import RedisProbes, probe_keys
from crawlfleet.flows import boarding
from crawlfleet.flows.applying import Applying, ApplyingPorts
from crawlfleet.flows.awarding import EVERY, Awarded, AwardingPorts, award_jobs
from crawlfleet.flows.boarding import BoardingPorts, offer_job, offer_missing
from crawlfleet.flows.probing import ASK_SECONDS, HOLD, WAIT_SECONDS, Pauses, ProbingPorts, probed
from crawlfleet.model.bidding import Application
from crawlfleet.model.board import (
    Applied,
    Bid,
    Decline,
    JobKey,
    Note,
    Offer,
    Offered,
    OfferState,
    Standing,
    WhyNot,
)
from crawlfleet.model.probing import NotJudged, ProbeKey
from crawlfleet.model.usage import Probe
from crawlfleet.policy import board
from crawlfleet.policy.bidding import after, award, fits, lowered, wanted
from crawlfleet.policy.board import BEGUN, GAIN_MS, SCALE, BoardBounds
from crawlfleet.policy.declining import COMES, LONGEST_WAIT, Step, decide, told
from crawlfleet.policy.probing import PROBE_BYTES, PROBE_SECONDS, limits_of
from crawlfleet.ports import ProbeBook
from crawlfleet.ports.board import JobBoard
