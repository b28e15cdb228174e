"""Serves the API from dictionaries, for the tests of the SDK and of the command line."""

from tests.kit.api_server.defaults import BIZ
from tests.kit.api_server.platform import biz, host, proxy_pool
from tests.kit.api_server.seeds import SEGMENT, seed_id
from tests.kit.api_server.server import FIRST_ID, KEY, ApiServer, problem, record
from tests.kit.api_server.wire import Call, Fault

__all__ = [
    "BIZ",
    "FIRST_ID",
    "KEY",
    "SEGMENT",
    "ApiServer",
    "Call",
    "Fault",
    "biz",
    "host",
    "problem",
    "proxy_pool",
    "record",
    "seed_id",
]
