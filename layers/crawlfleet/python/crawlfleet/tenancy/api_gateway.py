"""API keys of tenants in API Gateway: made, let into the stage's plan, removed; on AWS.

A key carries two tags: of what stage it is, by which alone the function may remove it, and of which
tenant. It is let in once it is in the usage plan of the stage's default key, whose limits hold for
each key by itself. What is listed is that plan's: a function that could list the account's keys
could read the keys of every other API in it.

A call that dies between making a key and letting it in leaves one that opens nothing and stands in
no plan; docs/guides/tenants.md says how to find it. Every other step is found by the next call.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from crawlfleet.kernel.aws.clients import border, code_of
from crawlfleet.kernel.errors import ConflictError, CrawlfleetError, StoreUnavailableError
from crawlfleet.kernel.names import KEYS_TAG, PRODUCT
from crawlfleet.tenancy.keys import MADE_FORMAT, FreshKey
from crawlfleet.tenancy.models import ManagedKey

#: A further tag of a key, for people: its tenant.
_TAG_TENANT: Final = "crawlfleet-tenant"
_PART: Final = "keys"
#: Keys that API Gateway lists at once, at most.
_PAGE: Final = 500
#: Pauses before a key is made once more, where API Gateway throttles: an account makes five a
#: second. Up to half as much again, by chance.
_PAUSES: Final = (0.3, 0.6, 1.2, 2.4)
#: Codes of a call that did nothing, as the account asks too often.
_THROTTLED: Final = frozenset({"TooManyRequestsException", "ThrottlingException", "Throttling"})
#: The account has as many keys as it may.
_FULL: Final = "LimitExceededException"
_NOT_THERE: Final = frozenset({"NotFoundException"})
#: A key without the stage's tag, which the right to remove goes by: made by hand, or gone.
_NOT_OURS: Final = frozenset({"AccessDeniedException"})
#: The key is in the plan: this call's own first try has put it there.
_IN_THE_PLAN: Final = frozenset({"ConflictException"})


class ApiGatewayKeys:
    """The keys of tenants of one stage, by clients of ``apigateway``.

    ``once`` sends each call a single time: making a key is nothing to repeat unseen.
    """

    def __init__(
        self,
        client: Any,
        once: Any,
        *,
        stage: str,
        default_key_id: str | None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._once = client, once
        self._stage, self._default = stage, default_key_id
        self._pause = pause
        self._plan_id: str | None = None
        name = rf"{re.escape(f'{PRODUCT}-{stage}-')}([a-z][a-z0-9-]{{0,31}})"
        self._name = re.compile(rf"{name}\.(\d{{8}}T\d{{6}}Z)\.[0-9a-f]{{12}}\Z")

    def __repr__(self) -> str:
        return f"ApiGatewayKeys({self._stage!r})"

    def make(self, tenant: str, now: datetime) -> FreshKey:
        """Make a key for a tenant and let it into the stage's plan.

        Raises:
            ConflictError: the account has as many keys as it may, or the stage no plan.
            StoreUnavailableError: API Gateway does not answer, or throttles.
        """
        plan = self._plan()  # where there is none, no key is made
        key = self._create(tenant, now)
        try:
            with border(_PART), _passing(_IN_THE_PLAN):
                self._client.create_usage_plan_key(
                    usagePlanId=plan, keyId=key.id, keyType="API_KEY"
                )
        except CrawlfleetError:
            with suppress(CrawlfleetError):
                self.remove(key.id)
            raise
        return key

    def remove(self, key_id: str) -> None:
        """Remove a key, and take it out of the plan; no effect where there is none of that id.

        One that was made by hand is only taken out: it opens nothing any more.
        """
        if key_id == self._default:
            return  # the deployment's
        plan = self._plan()
        with border(_PART), _passing(_NOT_THERE | _NOT_OURS):
            self._client.delete_api_key(apiKey=key_id)
        # With a key that goes its place in the plan does.
        if any(listed == key_id for listed, _ in self._listed()):
            with border(_PART), _passing(_NOT_THERE):
                self._client.delete_usage_plan_key(usagePlanId=plan, keyId=key_id)

    def made(self) -> list[ManagedKey]:
        """List the keys that were made for tenants; others were put into the plan by hand."""
        found = []
        for key_id, name in self._listed():
            match = self._name.match(name)
            if match is not None:
                made_at = datetime.strptime(match[2], MADE_FORMAT).replace(tzinfo=UTC)
                found.append(ManagedKey(id=key_id, tenant=match[1], made_at=made_at))
        return sorted(found, key=lambda key: key.id)

    def _listed(self) -> Iterator[tuple[str, str]]:
        wanted: dict[str, Any] = {"usagePlanId": self._plan(), "limit": _PAGE}
        while True:
            with border(_PART):
                page = self._client.get_usage_plan_keys(**wanted)
            # Its values are not kept: nobody is shown a key twice.
            yield from ((one["id"], one.get("name") or "") for one in page["items"])
            if not page.get("position"):
                return
            wanted["position"] = page["position"]

    def _create(self, tenant: str, now: datetime) -> FreshKey:
        made_at = now.astimezone(UTC).strftime(MADE_FORMAT)
        wanted = {
            "name": f"{PRODUCT}-{self._stage}-{tenant}.{made_at}.{uuid4().hex[:12]}",
            "description": f"Key of the tenant {tenant}",
            "enabled": True,
            "tags": {PRODUCT: self._stage, KEYS_TAG: self._stage, _TAG_TENANT: tenant},
        }
        for pause in (*_PAUSES, None):
            try:
                with border(_PART, _refused):
                    made = self._once.create_api_key(**wanted)
            except _ThrottledError:
                if pause is None:
                    raise
                self._pause(random.uniform(pause, 1.5 * pause))  # noqa: S311  spreads callers
            else:
                return FreshKey(made["id"], made["value"])
        raise AssertionError("the last try returns or raises")

    def _plan(self) -> str:
        """Find the plan that the default key is in."""
        if self._plan_id is None:
            plans = []
            if self._default is not None:
                with border(_PART):
                    plans = self._client.get_usage_plans(keyId=self._default)["items"]
            if not plans:
                said = "the stage's default key is in no usage plan that a tenant's key could join"
                raise ConflictError(f"{said}: deploy the stack `api`, which puts it into one")
            self._plan_id = str(plans[0]["id"])
        return self._plan_id


class _ThrottledError(StoreUnavailableError):
    """API Gateway has done nothing, as the account asks too often."""


def _refused(error: Exception) -> CrawlfleetError | None:
    code = code_of(error)
    if code in _THROTTLED:
        return _ThrottledError(_PART, str(code))
    if code == _FULL:
        said = "API Gateway makes no further key: the account has as many as it may"
        return ConflictError(f"{said} (Service Quotas has them as API keys per account)")
    return None


@contextmanager
def _passing(codes: frozenset[str]) -> Iterator[None]:
    """Pass over answers of these codes."""
    try:
        yield
    except Exception as error:
        if code_of(error) not in codes:
            raise
