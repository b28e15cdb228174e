"""Prices, measurements and assumptions, from the table that ships with the product.

A bill of a stage and what a running crawl is said to cost come from one file.
"""

import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from crawlfleet.fleet.prices import TABLE

PRICES: Final = TABLE

Price = Annotated[float, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
Part = Annotated[float, Meta(ge=0, le=1)]
#: What something is divided by.
Number = Annotated[float, Meta(gt=0)]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file: every key is there, and no other one."""


class About(_Table, frozen=True, kw_only=True):
    """The source, date and owner of the prices."""

    region: str
    as_of: date
    source: str


class LambdaPrices(_Table, frozen=True, kw_only=True):
    """Functions."""

    gb_second_arm64: Price
    gb_second_x86_64: Price
    million_calls: Price


class ApiPrices(_Table, frozen=True, kw_only=True):
    """API Gateway."""

    million_calls: Price


class NetworkPrices(_Table, frozen=True, kw_only=True):
    """NAT, addresses, bytes."""

    nat_gateway_hour: Price
    nat_gateway_gb: Price
    public_ipv4_hour: Price
    out_gb: Price
    region_gb: Price
    disk_gb_month: Price
    credit_vcpu_hour: Price


class WatchPrices(_Table, frozen=True, kw_only=True):
    """CloudWatch and X-Ray."""

    metric_month: Price
    alarm_month: Price
    dashboard_month: Price
    log_gb: Price
    million_traces: Price


class OtherPrices(_Table, frozen=True, kw_only=True):
    """Secrets, keys, events, archive, and what Valkey costs of the price of Redis."""

    valkey_part: Part
    secret_month: Price
    kms_key_month: Price
    million_events: Price
    million_queue_calls: Price
    s3_gb_month: Price


class Prices(_Table, frozen=True, kw_only=True, rename={"functions": "lambda"}):
    """The prices of AWS and Atlas; those by the hour are by instance type."""

    functions: LambdaPrices
    api_gateway: ApiPrices
    elasticache_hour: dict[str, Price]
    ec2_hour: dict[str, Price]
    network: NetworkPrices
    cloudwatch: WatchPrices
    other: OtherPrices
    atlas_hour: dict[str, Price]


class Measured(_Table, frozen=True, kw_only=True):
    """The findings of the benchmarks."""

    worker_cpu_ms: Amount
    mongodb_cpu_ms: Amount
    redis_cpu_ms: Amount
    submission_ms: Amount
    stored_kb: Amount
    import_seconds: Amount
    biz_second_log_kb: Amount
    stage_second_log_kb: Amount


class OwnMachine(_Table, frozen=True, kw_only=True):
    """A machine of one's own that runs the whole product."""

    month: Price
    cores: Number
    used: Annotated[float, Meta(gt=0, le=1)]
    mbit: Number


class Assumed(_Table, frozen=True, kw_only=True):
    """The assumptions that only the reader can correct."""

    page_kb: Amount
    request_kb: Amount
    store_kb: Amount
    queue_kb: Amount
    answer_seconds: Amount
    at_once: Number
    busy: Annotated[float, Meta(gt=0, le=1)]
    submitted_at_once: Number
    read_at_once: Number
    call_ms: Amount
    ipv6: Part
    archived_part: Part
    archived_kb: Amount
    tick_seconds: Amount
    due_seconds: Amount
    log_kb_a_call: Amount
    monitor_log_kb: Amount
    idle_log_kb: Amount
    active_seconds: Part
    bizs: Amount
    hosts: Amount
    api_methods: Amount
    traced: Part
    vcpu_mb: Number
    nat_mbit: dict[str, Number]
    nat_cpu: dict[str, Part]
    mongodb: dict[str, str]
    own_machine: OwnMachine


class Inputs(_Table, frozen=True, kw_only=True):
    """The whole file."""

    about: About
    prices: Prices
    regions: dict[str, dict[str, Price]]
    measured: Measured
    assumed: Assumed


def read(path: Path = PRICES) -> Inputs:
    """The file as values.

    Raises:
        msgspec.ValidationError: it says something else than a price list; names the place.
    """
    return msgspec.convert(tomllib.loads(path.read_text()), Inputs)
