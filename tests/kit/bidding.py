"""Names tests use of bidding for jobs: offers, auctions, bidders, probes."""

from crawlfleet.jobs.bidding import auction as listing_jobs
from crawlfleet.jobs.bidding import listing as board
from crawlfleet.jobs.bidding import redis as board_keys_module
from crawlfleet.jobs.bidding.auction import (
    EVERY,
    Awarded,
    AwardingPorts,
    ListingPorts,
    award_jobs,
    list_for_bids,
    relist_missing,
)
from crawlfleet.jobs.bidding.bidder import Bidder, BidderPorts
from crawlfleet.jobs.bidding.listing import (
    BEGUN,
    CATCH_UP,
    GAIN_MS,
    LONGEST_WAIT,
    SCALE,
    BoardBounds,
    Step,
    decide,
    reported,
)
from crawlfleet.jobs.bidding.models import (
    Application,
    Applied,
    Bid,
    Decline,
    JobKey,
    ListingState,
    Note,
    Offer,
    Offered,
    Probe,
    ProbeKey,
    Standing,
    UnknownLink,
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
    ProbeCache,
    ProbingPorts,
    limits_of,
    probe_link,
)
from crawlfleet.jobs.bidding.redis import (
    RedisBoard,
    RedisProbeCache,
    applications_key,
    board_keys,
    probe_keys,
)
from crawlfleet.jobs.bidding.selection import after, award, fits, lowered, wanted
