"""Stand-ins for what AWS would give: a configuration, a secret and room for consumers."""

from crawlfleet.config.documents.biz import Tree
from crawlfleet.kernel.aws.clients import Secrets


class FixedConfig:
    """An ``SsmConfig`` whose tree never changes."""

    refused = None

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def current(self) -> Tree:
        """Get the tree."""
        return self._tree

    def follow(self) -> None:
        """Do nothing: there is nothing new."""

    def unfollow(self) -> None:
        """Do nothing: nobody has to look."""


class FixedSecret(Secrets):
    """Secrets of which each is the same."""

    def __init__(self, value: str) -> None:
        super().__init__(None)  # no client is asked
        self._value = value

    def read(self, secret_id: str) -> str:  # noqa: ARG002
        """Get the secret, whatever its name is."""
        return self._value

    def forget(self, secret_id: str) -> None:
        """Do nothing: the next one that is read is the same."""


class UnboundLimit:
    """A ``ConcurrencyLimit`` of an account that gives whatever is asked for."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self._count: int | None = None

    def current(self) -> int | None:
        """Get the latest change, if there was any."""
        return self._count

    def change(self, count: int) -> None:
        """Allow so many."""
        self._count = count
