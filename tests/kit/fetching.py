"""Names tests use of downloading: connections, encodings, cookies, proxies, addresses."""

from crawlfleet.crawling.fetching import cookies as http_jars
from crawlfleet.crawling.fetching import dns as http_names
from crawlfleet.crawling.fetching import proxies as http_proxies
from crawlfleet.crawling.fetching import response as http_trail
from crawlfleet.crawling.fetching.connections import MAX_IDLE, HostSlots
from crawlfleet.crawling.fetching.content_encoding import CODINGS, BadCodingError, BodyDecoder
from crawlfleet.crawling.fetching.cookies import (
    MAX_COOKIES,
    MAX_HEADER_BYTES,
    MAX_JAR_BYTES,
    MAX_OF_DOMAIN,
    Jar,
    Jars,
)
from crawlfleet.crawling.fetching.dns import CachedResolver
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.fetching.models import (
    MAX_RETRY_AFTER_SECONDS,
    NO_FETCH_CONTEXT,
    FetchContext,
    Followed,
    HeldUpError,
    HopGuard,
    error_for,
    error_for_type,
    retry_after_seconds,
)
from crawlfleet.crawling.fetching.proxy_exchange import (
    ALONE_SECONDS,
    LATELY_SECONDS,
    MOST_FIGURES,
    ProxyExchange,
)
from crawlfleet.crawling.fetching.proxy_health import (
    LONGEST_COOL_DOWN_SECONDS,
    NEW,
    TRY_SECONDS,
    Fault,
    HeardProxies,
    ProxyNews,
    ProxyPoolState,
    ProxyState,
    Standing,
    Verb,
    after_failure,
    after_news,
    chosen,
    place_of,
)
from crawlfleet.crawling.fetching.redis import MAX_BYTES, RedisSessions
from crawlfleet.crawling.fetching.request import HeaderBook, first_hop, next_hop
from crawlfleet.crawling.fetching.response import STEP_BYTES, BodyRoom
from crawlfleet.crawling.fetching.secrets import SecretTexts
from crawlfleet.crawling.fetching.stores import StoreAddresses, StorePlaces
