"""Names tests use of bidding for jobs: listings, auctions, bidders, probes."""

from crawlfleet.jobs.bidding import auction as listing_jobs
from crawlfleet.jobs.bidding import listing as board
from crawlfleet.jobs.bidding import redis as board_keys_module
from crawlfleet.jobs.bidding.auction import EVERY, Awarded, JobAuction, list_for_bids
from crawlfleet.jobs.bidding.bidder import Bidder
from crawlfleet.jobs.bidding.listing import (
    BEGUN,
    CATCH_UP,
    GAIN_MS,
    LONGEST_WAIT,
    SCALE,
    BoardBounds,
    Step,
    decide,
    explain_declines,
)
from crawlfleet.jobs.bidding.models import (
    Application,
    Applied,
    Bid,
    Decline,
    JobListing,
    ListingResult,
    ListingState,
    Note,
    Probe,
    ProbeKey,
    Standing,
    UnknownLink,
    WhyNot,
)
from crawlfleet.jobs.bidding.prober import HttpProber
from crawlfleet.jobs.bidding.probing import (
    ASK_SECONDS,
    HOLD,
    PROBE_BYTES,
    PROBE_SECONDS,
    WAIT_SECONDS,
    LinkProber,
    Pauses,
    RedisProbeCache,
    limits_of,
    probe_keys,
)
from crawlfleet.jobs.bidding.redis import RedisBoard, applications_key, board_keys
from crawlfleet.jobs.bidding.selection import after, award, fits, lowered, wanted
from crawlfleet.jobs.models import JobKey
