"""Stand-ins for what AWS would give: a configuration, a secret and room for consumers."""

from crawlfleet.config.documents.biz import Tree


class FixedConfig:
    """A ``ConfigCentre`` whose tree never changes."""

    refused = None

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def current(self) -> Tree:
        """Get the tree."""
        return self._tree


class FixedSecret:
    """A ``SecretStore`` in which everything is the same secret."""

    def __init__(self, value: str) -> None:
        self._value = value

    def read(self, _: str, /) -> str:
        """Get the secret, whatever its name is."""
        return self._value

    def forget(self, _: str, /) -> None:
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
