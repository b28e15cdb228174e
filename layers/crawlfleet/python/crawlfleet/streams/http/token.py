"""The token of a channel, from the secret store, as the header that it is sent in."""

from typing import Final

from crawlfleet.crawling.fetching.secrets import SecretTexts
from crawlfleet.kernel.errors import FetchError

#: Statuses by which a channel refuses the secret.
REFUSED: Final = frozenset({401, 403})
#: The owner of the secrets of channels: the stage, which is no tenant.
_STAGE: Final = ""


class Token:
    """A bearer token by the name of its secret; without one nothing is sent."""

    def __init__(self, secrets: SecretTexts, name: str | None) -> None:
        self._secrets, self._name = secrets, name

    async def headers(self) -> dict[str, str]:
        """Return the headers that it is sent in; NoSecretError where it cannot be had."""
        if self._name is None:
            return {}
        texts = await self._secrets.headers(_STAGE, [self._name])
        return {"Authorization": f"Bearer {texts[self._name]}"}

    async def is_replaced(self, error: FetchError) -> bool:
        """Tell whether it was refused and has another text by now."""
        if error.status not in REFUSED or self._name is None:
            return False
        try:
            used = await self._secrets.headers(_STAGE, [self._name])
        except FetchError:
            return False
        return await self._secrets.renewed(_STAGE, used)
