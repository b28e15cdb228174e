"""The events that are the console's: told apart without loading what answers them."""

import re
from collections.abc import Mapping
from typing import Any, Final

Event = Mapping[str, Any]
_PATH: Final = re.compile(r"/console(/.*)?\Z")


def is_consoles(event: Event) -> bool:
    """Tell whether a proxy event is for the console.

    >>> is_consoles({"path": "/console/"}), is_consoles({"path": "/consoles"})
    (True, False)
    """
    return _PATH.match(str(event.get("path"))) is not None and "httpMethod" in event


def is_authorizers(event: Event) -> bool:
    """Tell whether an event is API Gateway's question who calls."""
    return event.get("type") == "REQUEST" and "methodArn" in event
