"""What to do about an incident, with the names of its own place in it."""

from typing import Final

from crawlfleet.finding_kinds import ADVICE
from crawlfleet.model.incident import Incident

_BIZ: Final = "BIZ"
_NODE: Final = "NODE"
_HOST: Final = "HOST"


def advised(incident: Incident) -> str:
    """The kind's advice for this biz, node or host."""
    place = incident.place
    named = {_BIZ: place.biz, _NODE: str(place), _HOST: place.name}
    text = ADVICE[incident.kind].do
    for word, name in named.items():
        text = text.replace(word, name) if name else text
    return text
