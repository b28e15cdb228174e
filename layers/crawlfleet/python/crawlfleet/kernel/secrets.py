"""The store of secrets, as whoever opens connections asks for it."""

from typing import Protocol


class SecretStore(Protocol):
    """Secrets by their ids."""

    def read(self, secret_id: str, /) -> str:
        """The secret's value; asked for once, then from memory until :meth:`forget`.

        Raises:
            ConfigError: there is no such secret, or this function may not read it.
            StoreUnavailableError: the store of secrets does not answer.
        """
        ...

    def forget(self, secret_id: str, /) -> None:
        """Ask again next time: the part behind the secret refused it, or it is due."""
        ...
