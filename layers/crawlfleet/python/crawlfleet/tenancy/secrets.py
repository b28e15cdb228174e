"""The inventory of a tenant's secrets: those below its name in Secrets Manager."""

from collections import Counter
from typing import Any, Final

from crawlfleet.kernel.aws.clients import border
from crawlfleet.kernel.names import tenant_secret
from crawlfleet.kernel.time import TimeLeft

_PART: Final = "secrets"


class SecretInventory:
    """Count and delete a tenant's secrets; ``client`` is botocore's of Secrets Manager."""

    store = _PART

    def __init__(self, client: Any, stage: str) -> None:
        self._client, self._stage = client, stage

    def count(self, tenant: str) -> Counter[str]:
        """Count the tenant's secrets."""
        return +Counter(secrets=len(self._names(tenant)))

    def clear(self, tenant: str, time_left: TimeLeft) -> None:
        """Delete them at once: none waits to be restored."""
        for name in self._names(tenant):
            if time_left() <= 0:
                return
            with border(_PART):
                self._client.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)

    def _names(self, tenant: str) -> list[str]:
        below, token = tenant_secret(self._stage, tenant, ""), ""
        wanted: dict[str, Any] = {"Filters": [{"Key": "name", "Values": [below]}]}
        found: list[str] = []
        while True:
            with border(_PART):
                page = self._client.list_secrets(
                    MaxResults=100, **wanted, **({"NextToken": token} if token else {})
                )
            found += [one["Name"] for one in page["SecretList"]]
            token = page.get("NextToken", "")
            if not token:
                # The service matches words of names as it likes.
                return sorted(name for name in found if name.startswith(below))
