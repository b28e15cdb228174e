"""Host slots in the API: a process outside of the fleet asks when it may download."""

from typing import Annotated, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import read
from crawlfleet.api.responses import filled, shown
from crawlfleet.api.routing import Call, Routes
from crawlfleet.crawling.politeness.outside import OutsideAsk, grant_outside
from crawlfleet.wire.slots import (
    HOST,
    LONGEST_DELAY_SECONDS,
    MOST_SLOTS,
    GrantedSlots,
    SlotsAnswer,
)

#: Hosts of one ask.
MOST_HOSTS: Final = 200
_Host = Annotated[str, Meta(pattern=HOST, max_length=255)]
_Process = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$")]
_Number = Annotated[int, Meta(ge=0, le=MOST_SLOTS)]


class SlotsOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An ask for ``count`` slots at a host, where ``running`` downloads have one or are in flight.

    ``crawl_delay_seconds`` is what the site's robots.txt asks for.
    """

    host: _Host
    count: _Number
    running: _Number = 0
    crawl_delay_seconds: Annotated[float, Meta(ge=0, le=LONGEST_DELAY_SECONDS)] | None = None


class SlotsInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The asks of one process, which names itself: its permits are its own."""

    process: _Process
    hosts: Annotated[list[SlotsOf], Meta(min_length=1, max_length=MOST_HOSTS)]


ROUTES: Final = Routes()


@ROUTES.add("POST", "/v1/{biz}/slots", SlotsAnswer, problems=(413,), body=(SlotsInput,))
def reserve_slots(call: Call, biz: str) -> Response[str]:
    """Reserve host slots for a process that downloads by itself, such as a Scrapy crawl."""
    given = read(call.body, SlotsInput)
    asks = [filled(OutsideAsk, one) for one in given.hosts]
    hosts = call.context.hosts.hosts
    found = grant_outside(hosts, call.tree, call.tenant, biz, given.process, asks)
    slots = tuple(filled(GrantedSlots, one) for one in found.slots)
    return shown(200, filled(SlotsAnswer, found, slots=slots))
