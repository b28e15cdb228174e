"""The subscribers of a stage's notifications, as ``stages.py`` names them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

#: Further subscribers of whichever stage is deployed: commas between them.
ENV_NOTIFY: Final = "CRAWLFLEET_NOTIFY"
#: What to do where nobody would be notified.
NOBODY: Final = (
    "nobody would be notified of what is wrong: name somebody in its `notify` (infra/stages.py), or"
    f" in {ENV_NOTIFY} (`make deploy NOTIFY=you@example.org`), such as you@example.org,"
    " +4915112345678 or https://hooks.example/crawlfleet; commas between several"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """The subscribers of a stage; more can be subscribed by hand to the topics.

    Attributes:
        emails: Addresses that get every message; AWS first asks each of them whether it wants to.
        phones: Numbers such as ``+4915112345678`` that get what is critical and CloudWatch's
            gravest alarms, by SMS.
        machines: ``https://`` addresses and ARNs of SQS queues that get incidents as JSON.
    """

    emails: tuple[str, ...] = ()
    phones: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is anybody."""
        return bool(self.emails or self.phones or self.machines)

    def joined(self, text: str) -> Self:
        """Return these and those that a text names; commas stand between several.

        >>> Notify(emails=("a@b.example",)).joined("+4915112345678, a@b.example")
        Notify(emails=('a@b.example',), phones=('+4915112345678',), machines=())
        """
        found: dict[str, list[str]] = {"emails": [], "phones": [], "machines": []}
        for one in filter(None, map(str.strip, text.split(","))):
            kind = "phones" if one.startswith("+") else "emails"
            found["machines" if one.startswith(("http", "arn:")) else kind].append(one)
        return replace(
            self,
            **{
                name: tuple(dict.fromkeys((*getattr(self, name), *more)))
                for name, more in found.items()
            },
        )

    def errors(self) -> Iterator[str]:
        """Yield what AWS would refuse in the middle of a deployment."""
        for field_name in ("emails", "phones", "machines"):
            addresses = getattr(self, field_name)
            for address in sorted({one for one in addresses if addresses.count(one) > 1}):
                yield f"notify.{field_name} has {address!r} more than once"
        for email in self.emails:
            if "@" not in email[1:-1]:
                yield f"notify.emails has {email!r}, which is no address"
        for phone in self.phones:
            if not (phone.startswith("+") and phone[1:].isdecimal() and 8 <= len(phone) <= 16):
                yield f"notify.phones has {phone!r}, which is no + and 7 to 15 digits"
        for machine in self.machines:
            if not machine.startswith(("https://", "arn:")):
                yield f"notify.machines has {machine!r}: no https:// and no ARN of a queue"
