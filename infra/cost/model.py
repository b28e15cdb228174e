"""The arithmetic: what pages cost, what costs without pages, each line with its assumption.

Everything is linear in pages but for what runs anyway. Free tiers are not counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from infra.cost.inputs import Assumed, Inputs
from infra.cost.shapes import Shape

HOURS_A_MONTH: Final = 730
_MINUTES_A_MONTH: Final = HOURS_A_MONTH * 60
#: Lambda looks into the queue of the ticks between two minutes: five at once, 20 s each.
_POLLS_A_MINUTE: Final = 15
_MILLION: Final = 1_000_000
#: How long an invocation works, and stays when there is nothing left: its overhead.
_INVOCATION_SECONDS: Final = 875.0
_IDLE_SECONDS: Final = 2.0
_NAT_DISK_GB: Final = 8
#: Processors of a t4g, whatever its size.
_NAT_CPUS: Final = 2
#: Of a replica set.
_MEMBERS: Final = 3
_KB_A_GB: Final = 1_000_000
_KB_A_MBIT: Final = 1_000 / 8
_NO_END: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """So many dollars for ``what``; ``how`` is where the number comes from."""

    what: str
    usd: float
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The cost of a stage.

    ``by_pages`` is for so many pages, ``by_month`` for a month without any, ``by_work`` what a
    month costs beside that with work in each of its hours, however many pages that is.
    ``most_a_month`` is how many pages it keeps up with, ``held_up_by`` what it cannot do more of.
    """

    name: str
    pages: float
    by_pages: tuple[Line, ...]
    by_month: tuple[Line, ...]
    by_work: tuple[Line, ...] = ()
    most_a_month: float
    held_up_by: str

    @property
    def for_pages(self) -> float:
        """The pages alone."""
        return _sum(self.by_pages)

    @property
    def idle_month(self) -> float:
        """A month without a page."""
        return _sum(self.by_month)

    def per_million(self, pages_a_month: float) -> float:
        """A million pages with their share of the month, at so many pages a month."""
        month = self.idle_month + _sum(self.by_work)
        return (self.for_pages / self.pages + month / pages_a_month) * _MILLION


def _sum(lines: Sequence[Line]) -> float:
    return sum(line.usd for line in lines)


def consumer_seconds(inputs: Inputs, shape: Shape) -> float:
    """Seconds of a consumer for one page: its CPU or its waiting, whichever lasts longer.

    A function has as much of a processor as its memory brings. Downloads wait side by side.
    """
    assumed = inputs.assumed
    processor = min(1.0, shape.consumer_gb * 1024 / assumed.vcpu_mb)
    working = inputs.measured.worker_cpu_ms / 1_000 / processor
    waiting = assumed.answer_seconds / (assumed.at_once * assumed.busy)
    # Each invocation begins and ends once.
    overhead = 1 + (_IDLE_SECONDS + inputs.measured.import_seconds) / _INVOCATION_SECONDS
    return max(working, waiting) * overhead


def bill(inputs: Inputs, shape: Shape, pages: float = _MILLION) -> Bill:
    """Compute the cost of a stage."""
    most, held_up_by = most_a_month(inputs, shape)
    return Bill(
        name=shape.name,
        pages=pages,
        most_a_month=most,
        held_up_by=held_up_by,
        by_pages=tuple(_by_pages(inputs, shape, pages)),
        by_month=tuple(_by_month(inputs, shape)),
        by_work=(
            Line(
                what="CloudWatch metrics of work",
                usd=(shape.stage_series + shape.work_series)
                * inputs.prices.cloudwatch.metric_month,
                how=f"{shape.stage_series + shape.work_series:g} series while there is work, by "
                f"the hour: {shape.stage_series} of the stage, its Redis and its nodes, "
                f"{shape.work_series:g} of {inputs.assumed.bizs:g} bizs and "
                f"{inputs.assumed.hosts:g} hosts",
            ),
            Line(
                what="API Gateway, detailed metrics",
                usd=shape.api_series * inputs.prices.cloudwatch.metric_month,
                how=f"{shape.api_series:g} series of {inputs.assumed.api_methods:g} methods, by "
                "the hour with calls",
            ),
            _seconds_of_work(inputs),
        ),
    )


def _seconds_of_work(inputs: Inputs) -> Line:
    """The monitor writes a line for each second in which a biz did something, and one for all."""
    measured, assumed = inputs.measured, inputs.assumed
    each = assumed.bizs * measured.biz_second_log_kb + measured.stage_second_log_kb
    kb_a_minute = each * assumed.active_seconds * 60 + assumed.monitor_log_kb
    return Line(
        what="logs of work",
        usd=kb_a_minute * _MINUTES_A_MONTH / _KB_A_GB * inputs.prices.cloudwatch.log_gb,
        how=f"{kb_a_minute:.0f} KB a minute: {measured.biz_second_log_kb:g} KB a biz and second "
        f"of {assumed.bizs:g} bizs, {measured.stage_second_log_kb:g} KB of the stage, "
        f"in {assumed.active_seconds:.0%} of the seconds, and {assumed.monitor_log_kb:g} KB of "
        "metrics",
    )


def _by_pages(inputs: Inputs, shape: Shape, pages: float) -> Iterator[Line]:
    prices, assumed, measured = inputs.prices, inputs.assumed, inputs.measured
    gb_second = (
        prices.functions.gb_second_arm64 if shape.arm64 else prices.functions.gb_second_x86_64
    )
    each = consumer_seconds(inputs, shape)
    yield Line(
        what="Lambda, consumers",
        usd=pages * each * shape.consumer_gb * gb_second,
        how=f"{each * 1_000:.1f} ms a page at {shape.consumer_gb:g} GB: the longer of "
        f"{measured.worker_cpu_ms:g} ms of CPU and of {assumed.answer_seconds:g} s of waiting "
        f"with {assumed.at_once * assumed.busy:g} downloads at once",
    )
    submissions, reads = pages / assumed.submitted_at_once, pages / assumed.read_at_once
    spent = (submissions * measured.submission_ms + reads * assumed.call_ms) / 1_000
    yield Line(
        what="Lambda, router",
        usd=spent * shape.router_gb * gb_second,
        how=f"{assumed.submitted_at_once:,.0f} pages a submission of "
        f"{measured.submission_ms:g} ms, {assumed.read_at_once:,.0f} records a reading call of "
        f"{assumed.call_ms:g} ms",
    )
    invocations = pages * each / _INVOCATION_SECONDS
    calls = submissions + reads
    yield Line(
        what="Lambda, calls",
        usd=(calls + invocations) / _MILLION * prices.functions.million_calls,
        how="those calls; a consumer works for 15 minutes a call",
    )
    yield Line(
        what="API Gateway",
        usd=calls / _MILLION * prices.api_gateway.million_calls,
        how="those calls",
    )
    yield from _bytes(inputs, shape, pages)
    kept_gb = pages * measured.stored_kb / _KB_A_GB
    yield Line(
        what="MongoDB, disk",
        usd=kept_gb * _MEMBERS * prices.network.disk_gb_month,
        how=f"{measured.stored_kb:g} KB a page on {_MEMBERS} members, kept for a month, at gp3's "
        "price; a tier includes some",
    )
    archived_gb = pages * assumed.archived_part * assumed.archived_kb / _KB_A_GB
    yield Line(
        what="S3",
        usd=archived_gb * prices.other.s3_gb_month,
        how=f"{assumed.archived_part:.0%} of the pages archived, {assumed.archived_kb:g} KB each, "
        "for a month",
    )
    log_gb = (calls + invocations) * assumed.log_kb_a_call / _KB_A_GB
    traces = (calls + invocations) * assumed.traced if shape.tracing else 0.0
    yield Line(
        what="logs and traces",
        usd=log_gb * prices.cloudwatch.log_gb
        + traces / _MILLION * prices.cloudwatch.million_traces,
        how=f"{assumed.log_kb_a_call:g} KB a call, {assumed.traced:.0%} of calls traced",
    )


def _bytes(inputs: Inputs, shape: Shape, pages: float) -> Iterator[Line]:
    prices, assumed = inputs.prices.network, inputs.assumed
    through = pages * _kb_over_nat(assumed) / _KB_A_GB
    if shape.nat_type is None:
        yield Line(
            what="NAT gateway, bytes",
            usd=through * prices.nat_gateway_gb,
            how=f"{assumed.page_kb:g} KB a page, what is sent and what is stored; "
            f"{assumed.ipv6:.0%} over IPv6 past it",
        )
    else:
        yield Line(
            what="NAT instances, bytes",
            usd=0.0,
            how=f"free, and bounded: a {shape.nat_type} keeps up "
            f"{assumed.nat_mbit[shape.nat_type]:g} Mbit/s",
        )
    # Functions run in all zones alike, and what is sent from one to another is paid at both ends.
    beyond = max(0.0, 1 - shape.nats / shape.zones)
    yield Line(
        what="NAT, between zones",
        usd=through * beyond * prices.region_gb,
        how=f"{beyond:.0%} of the bytes over NAT: there are {shape.nats} for {shape.zones} zones",
    )
    yield Line(
        what="data out of AWS",
        usd=pages * assumed.request_kb / _KB_A_GB * prices.out_gb,
        how=f"{assumed.request_kb:g} KB sent for a page; what comes in is free",
    )
    inside = pages * (assumed.store_kb + assumed.queue_kb) / _KB_A_GB
    yield Line(
        what="to Redis and MongoDB",
        usd=inside * prices.region_gb,
        how=f"{assumed.queue_kb:g} KB and {assumed.store_kb:g} KB a page, all of it between zones",
    )


def _kb_over_nat(assumed: Assumed) -> float:
    """Return the kB of a page that pass the NAT: its IPv4 traffic, and what is stored."""
    return (assumed.page_kb + assumed.request_kb) * (1 - assumed.ipv6) + assumed.store_kb


def waiting_for_schedules(inputs: Inputs, shape: Shape) -> float:
    """Return what a month costs more where a schedule is due in every minute of it.

    The scheduler runs schedules at their time: a tick waits for what is due before the next one.
    """
    return _MINUTES_A_MONTH * inputs.assumed.due_seconds * _tick_second(inputs, shape)


def _tick_second(inputs: Inputs, shape: Shape) -> float:
    functions = inputs.prices.functions
    gb_second = functions.gb_second_arm64 if shape.arm64 else functions.gb_second_x86_64
    return shape.tick_gb * gb_second


def _by_month(inputs: Inputs, shape: Shape) -> Iterator[Line]:
    prices, assumed = inputs.prices, inputs.assumed
    node = prices.elasticache_hour[shape.redis_type]
    node *= prices.other.valkey_part if shape.valkey else 1
    yield Line(
        what="Redis (ElastiCache)",
        usd=HOURS_A_MONTH * shape.redis_nodes * node,
        how=f"{shape.redis_nodes} x {shape.redis_type}; snapshots within what is free",
    )
    yield Line(
        what="MongoDB (Atlas)",
        usd=HOURS_A_MONTH * prices.atlas_hour[shape.mongodb],
        how=f"{shape.mongodb}, three members; one of your own costs what it costs",
    )
    yield _nat(inputs, shape)
    ticks = shape.ticks * _MINUTES_A_MONTH
    yield Line(
        what="scheduler and monitor",
        usd=ticks * assumed.tick_seconds * _tick_second(inputs, shape)
        + ticks / _MILLION * (prices.functions.million_calls + prices.other.million_events)
        + _MINUTES_A_MONTH * _POLLS_A_MINUTE / _MILLION * prices.other.million_queue_calls,
        how=f"{shape.ticks} ticks a minute, {assumed.tick_seconds:g} s at {shape.tick_gb:g} GB",
    )
    watch = prices.cloudwatch
    yield Line(
        what="CloudWatch metrics",
        usd=shape.series * watch.metric_month,
        how=f"{shape.series} series: that it is watched, and ticks; the others by work",
    )
    yield Line(
        what="alarms and dashboard",
        usd=shape.alarms * watch.alarm_month + shape.dashboard * watch.dashboard_month,
        how=f"{shape.alarms} alarms, {shape.dashboard:d} dashboard",
    )
    log_gb = _MINUTES_A_MONTH * (assumed.idle_log_kb + shape.ticks * assumed.log_kb_a_call)
    yield Line(
        what="logs of ticks",
        usd=log_gb / _KB_A_GB * watch.log_gb,
        how=f"{assumed.idle_log_kb:g} KB of metrics a minute, and {assumed.log_kb_a_call:g} KB of "
        "each tick",
    )
    yield Line(
        what="secrets",
        usd=shape.secrets * prices.other.secret_month,
        how=f"{shape.secrets} of them; parameters are free",
    )
    yield Line(
        what="KMS",
        usd=shape.keys * prices.other.kms_key_month,
        how=f"{shape.keys} key, topics and configuration; its first two rotations add as much each",
    )


def _nat(inputs: Inputs, shape: Shape) -> Line:
    prices = inputs.prices
    address = prices.network.public_ipv4_hour
    if shape.nat_type is None:
        hour = prices.network.nat_gateway_hour + address
        return Line(
            what="NAT gateways",
            usd=HOURS_A_MONTH * shape.nats * hour,
            how=f"{shape.nats}, each with a public address",
        )
    each = HOURS_A_MONTH * (prices.ec2_hour[shape.nat_type] + address)
    own = inputs.assumed.nat_cpu[shape.nat_type]
    bought = HOURS_A_MONTH * _NAT_CPUS * (1 - own) * prices.network.credit_vcpu_hour
    return Line(
        what="NAT instances",
        usd=shape.nats * (each + _NAT_DISK_GB * prices.network.disk_gb_month),
        how=f"{shape.nats} x {shape.nat_type}, each with a public address and {_NAT_DISK_GB} GB "
        f"of disk; within its {own:.0%} of {_NAT_CPUS} processors, else up to ${bought:,.2f} of "
        "CPU credits each",
    )


def own_bill(inputs: Inputs, pages: float = _MILLION) -> Bill:
    """Return the bill of a machine of one's own, which costs by the month alone."""
    machine = inputs.assumed.own_machine
    hour, held_up_by = own_pages_an_hour(inputs)
    return Bill(
        name="own machine",
        pages=pages,
        most_a_month=hour * HOURS_A_MONTH,
        held_up_by=held_up_by,
        by_pages=(),
        by_month=(
            Line(
                what="the machine",
                usd=machine.month,
                how=f"{machine.cores:g} cores, {machine.used:.0%} of them at work, "
                f"{machine.mbit:g} Mbit/s: {hour / _MILLION:.1f} million pages an hour",
            ),
        ),
    )


def own_pages_an_hour(inputs: Inputs) -> tuple[float, str]:
    """Count the pages an hour that one machine works through; name what holds it up."""
    machine, measured, assumed = inputs.assumed.own_machine, inputs.measured, inputs.assumed
    each = measured.worker_cpu_ms + measured.mongodb_cpu_ms + measured.redis_cpu_ms
    each += measured.submission_ms / assumed.submitted_at_once
    page_kb = assumed.page_kb + assumed.request_kb
    limits = {
        "the machine's cores": machine.cores * machine.used / (each / 1_000) if each else _NO_END,
        "the machine's network": machine.mbit * _KB_A_MBIT / page_kb if page_kb else _NO_END,
    }
    least = min(limits, key=lambda name: limits[name])
    return limits[least] * 3_600, least


def most_a_month(inputs: Inputs, shape: Shape) -> tuple[float, str]:
    """Count the pages that a stage keeps up with, and name its bound; sites may allow less."""
    each = consumer_seconds(inputs, shape)
    limits = {f"{shape.consumers} consumers": shape.consumers / each if each else _NO_END}
    if (over_nat := _nat_pages_a_second(inputs, shape)) is not None:
        limits[f"{shape.nats} x {shape.nat_type} as NAT"] = over_nat
    least = min(limits, key=lambda name: limits[name])
    return limits[least] * 3_600 * HOURS_A_MONTH, least


def _nat_pages_a_second(inputs: Inputs, shape: Shape) -> float | None:
    """Count the pages a second that NAT instances keep up with; None without any."""
    assumed = inputs.assumed
    if shape.nat_type is None:
        return None
    page = _kb_over_nat(assumed)
    kb_a_second = assumed.nat_mbit[shape.nat_type] * shape.nats * _KB_A_MBIT
    return kb_a_second / page if page else None


def one_page_a_call(inputs: Inputs, shape: Shape, pages: float = _MILLION) -> float:
    """Lambda's part where each page is a call of its own, as most samples do it, at 512 MB."""
    prices, assumed = inputs.prices.functions, inputs.assumed
    gb_second = prices.gb_second_arm64 if shape.arm64 else prices.gb_second_x86_64
    processor = 512 / assumed.vcpu_mb
    seconds = assumed.answer_seconds + inputs.measured.worker_cpu_ms / 1_000 / processor
    return pages * (seconds * 0.5 * gb_second + prices.million_calls / _MILLION)


def behind_gateways(shape: Shape) -> Shape:
    """The same stage with NAT gateways in place of instances."""
    return replace(shape, nat_type=None)
