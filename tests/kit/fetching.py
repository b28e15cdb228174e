"""Names tests use of downloading: connections, encodings, cookies, proxies, addresses."""

from crawlfleet.adapters import http_jars, http_names, http_proxies, http_trail
from crawlfleet.adapters.host_slots import HostSlots
from crawlfleet.adapters.http_coding import CODINGS, BadCodingError, BodyDecoder
from crawlfleet.adapters.http_connections import MAX_IDLE
from crawlfleet.adapters.http_cookies import (
    MAX_COOKIES,
    MAX_HEADER_BYTES,
    MAX_JAR_BYTES,
    MAX_OF_DOMAIN,
    Jar,
)
from crawlfleet.adapters.http_fetcher import AiohttpFetcher
from crawlfleet.adapters.http_hops import first_hop, next_hop
from crawlfleet.adapters.http_jars import Jars
from crawlfleet.adapters.http_names import Names
from crawlfleet.adapters.http_request import HeaderBook
from crawlfleet.adapters.http_room import STEP_BYTES, BodyRoom
from crawlfleet.adapters.redis_queue.sessions import MAX_BYTES, RedisSessions
from crawlfleet.policy.proxying import (
    LONGEST_REST_SECONDS,
    NEW,
    Standing,
    after_failure,
    chosen,
    place_of,
)
from crawlfleet.policy.web_status import (
    MAX_RETRY_AFTER_SECONDS,
    error_for,
    error_for_type,
    retry_after_seconds,
)
from crawlfleet.ports import NO_ERRAND, Errand, Passage, Sessions
