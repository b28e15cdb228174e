"""Names tests use of bidding for jobs: offers, auctions, bidders, probes."""

from crawlfleet.jobs.bidding import auction as boarding
from crawlfleet.jobs.bidding import listing as board
from crawlfleet.jobs.bidding import redis as board_keys_module
from crawlfleet.jobs.bidding.auction import (
    EVERY,
    Awarded,
    AwardingPorts,
    BoardingPorts,
    award_jobs,
    offer_job,
    offer_missing,
)
from crawlfleet.jobs.bidding.bidder import Applying, ApplyingPorts
from crawlfleet.jobs.bidding.listing import (
    BEGUN,
    COMES,
    GAIN_MS,
    LONGEST_WAIT,
    SCALE,
    BoardBounds,
    Step,
    decide,
    told,
)
from crawlfleet.jobs.bidding.models import (
    Application,
    Applied,
    Bid,
    Decline,
    JobKey,
    Note,
    NotJudged,
    Offer,
    Offered,
    OfferState,
    Probe,
    ProbeKey,
    Standing,
    WhyNot,
)
from crawlfleet.jobs.bidding.ports import JobBoard
from crawlfleet.jobs.bidding.prober import HttpProber
from crawlfleet.jobs.bidding.probing import (
    ASK_SECONDS,
    HOLD,
    PROBE_BYTES,
    PROBE_SECONDS,
    WAIT_SECONDS,
    Pauses,
    ProbeBook,
    ProbingPorts,
    limits_of,
    probed,
)
from crawlfleet.jobs.bidding.redis import (
    RedisBoard,
    RedisProbes,
    applications_key,
    board_keys,
    probe_keys,
)
from crawlfleet.jobs.bidding.selection import after, award, fits, lowered, wanted
