"""Read what a site's robots.txt allows (RFC 9309), at a bounded cost whatever the file is.

protego matches the rules. Our group is found here, before anything is parsed: protego adds each
rule to each agent of its group, and a file of 90 KiB that names thousands of agents before
thousands of rules would keep it busy for half a minute.

=====================  ===================================================  ======
answer                 means                                                kept
=====================  ===================================================  ======
200 to 299             what the file says                                   24 h
300 to 399             no end after five hops: everything is allowed        24 h
400 to 499, not 429    there is none: everything is allowed                 24 h
429, 500 and beyond    unknown: nothing is asked for until it is known      5 min
none                   the same                                             1 min
=====================  ===================================================  ======

The standard lets a crawler ignore a file that was unavailable for 30 days. We do not: requests do
not live that long by default, and an unavailable site has not agreed.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from functools import lru_cache, partial
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace
from protego import Protego

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.policies import Politeness
from crawlfleet.crawling.politeness.models import MAX_BYTES, MAX_KEPT_BYTES, RobotsCopy, packed

#: A group with more rules, or more wildcards, is not searched for each page: 10,000 plain rules
#: cost 5 ms a page and 1,000 wildcards 10 ms on the longest URLs. It allows nothing.
MAX_RULES: Final = 10_000
MAX_WILDCARDS: Final = 1_000
#: No URL that is crawled is longer, so no longer rule matters.
_LONGEST_LINE: Final = 8_192

_DAY_SECONDS: Final = 86_400.0
_TROUBLE_SECONDS: Final = 300.0
_SILENCE_SECONDS: Final = 60.0

#: These fields as protego accepts them, misspelled or without a colon.
_AGENT: Final = re.compile(r"user[ -]?agent(?:\s*:|\s)\s*(.*)", re.IGNORECASE)
_RULE: Final = re.compile(
    r"(?:allow|disallow|dissallow|dissalow|disalow|diasllow|disallaw|crawl[ -]delay)"
    r"(?:\s*:|\s)\s*(.*)",
    re.IGNORECASE,
)
#: These belong to no group.
_SITE_WIDE: Final = re.compile(r"(?:site-?maps?|host)(?:\s*:|\s)", re.IGNORECASE)
_PRODUCT: Final = re.compile(r"[A-Za-z_-]*")
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_NOT_TEXT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")

#: The agent under which protego gets our rules.
_OURS: Final = "*"
#: The memory of a parsed rule, in bytes, about.
_RULE_BYTES: Final = 600
#: Products whose groups of a long file are kept.
_MOST_PRODUCTS: Final = 8
_TOO_LONG: Final = f"says more to us than the {MAX_KEPT_BYTES // 1024} KiB that are kept of it"
#: Products whose parsed rules of one site are kept.
_PRODUCTS: Final = 4


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Tell whether a page may be asked for; if not, ``why``, for people.

    ``unknown`` means not now, but maybe later; ``unreached`` is the kind and text of the error of
    connecting, where that is the reason.
    """

    allowed: bool
    unknown: bool = False
    why: str = ""
    unreached: tuple[str, str] | None = None


_ALLOWED: Final = Verdict(allowed=True)


class _Rules(msgspec.Struct, frozen=True):
    """The parsed group of one product: None where it has too many rules."""

    parsed: Protego | None
    delay: float | None
    refusal: str = ""


class SiteRules:
    """The rules of a site, spelt as :func:`origin_of` does, for any product. For threads, too."""

    def __init__(self, origin: str, copy: RobotsCopy) -> None:
        self.origin = origin
        self.fetched_ms = copy.fetched_ms
        self._status = copy.status
        self._unreached = _unreached(copy.text) if copy.status == 0 else None
        self._copy = copy
        self._text = _text(copy.text) if 200 <= copy.status < 300 else ""
        self._read = lru_cache(_PRODUCTS)(partial(_read, self._text, copy.too_long))
        # Threads that ask at once wait for one to parse.
        self._lock = threading.Lock()

    @property
    def weight(self) -> int:
        """The bytes of memory it takes at most, about, its rules parsed for one product."""
        rules = min(self._text.count("\n") + 1, MAX_RULES) if self._text else 0
        return 1_000 + 2 * len(self._text) + rules * _RULE_BYTES

    def covers(self, product: str) -> bool:
        """Tell whether what the site says to this product is known."""
        return self._copy.covers(product)

    def verdict(self, url: str, product: str) -> Verdict:
        """Decide whether ``product`` may ask for a page of this site."""
        if not self.covers(product):
            why = f"{self.origin}/robots.txt is read again for {product or 'all'}"
            return Verdict(allowed=False, unknown=True, why=why)
        if _trouble(self._status):
            said = f"answered {self._status}" if self._status else "could not be fetched"
            why = f"{self.origin}/robots.txt {said}: nothing is asked for until it can be read"
            return Verdict(allowed=False, unknown=True, why=why, unreached=self._unreached)
        if not self._text and not self._copy.too_long:
            return _ALLOWED
        rules = self._of(product)
        if rules.parsed is None:
            if rules.refusal and urlsplit(url).path != "/robots.txt":
                return Verdict(allowed=False, why=f"{self.origin}/robots.txt {rules.refusal}")
            return _ALLOWED
        if rules.parsed.can_fetch(url, _OURS):
            return _ALLOWED
        line = _line(rules.parsed, url)
        why = f"{self.origin}/robots.txt says to {product or 'all'}: {line}"
        return Verdict(allowed=False, why=why)

    def crawl_delay(self, product: str) -> float | None:
        """Get the seconds between two requests that the site asks for, or None."""
        return self._of(product).delay if self._text and self.covers(product) else None

    def _of(self, product: str) -> _Rules:
        with self._lock:
            return self._read(product.lower())


def product_of(politeness: Politeness, fetch: FetchLimits) -> str:
    """Get the product that robots.txt is asked for: the biz's, or its user agent's first word.

    >>> product_of(Politeness(), FetchLimits(user_agent="Acme_Bot/2.1 (+https://acme.example)"))
    'Acme_Bot'
    """
    if politeness.product is not None:
        return politeness.product
    found = _PRODUCT.match(fetch.user_agent)
    return found[0] if found else ""


def kept_seconds(copy: RobotsCopy) -> float:
    """Get the seconds for which a copy is valid after it was fetched."""
    if copy.status == 0:
        return _SILENCE_SECONDS
    return _TROUBLE_SECONDS if _trouble(copy.status) else _DAY_SECONDS


def _trouble(status: int) -> bool:
    return not 200 <= status < 500 or status == 429


def _unreached(text: bytes) -> tuple[str, str] | None:
    kind, end, message = text.decode("utf-8", "replace").partition("\n")
    return (kind, message) if end else None


def _text(body: bytes) -> str:
    """Decode the file as lines of text, without a line that was cut off."""
    if len(body) >= MAX_BYTES:
        cut = body[:MAX_BYTES]
        body = cut[: max(cut.rfind(b"\n"), cut.rfind(b"\r")) + 1]
    decoded = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    return _NOT_TEXT.sub("\ufffd", _LINE_ENDS.sub("\n", decoded))


def kept_copy(copy: RobotsCopy, product: str, before: Iterable[str] = ()) -> RobotsCopy:
    """Keep of a long file what it says to the product, to those ``before`` it and to all.

    Each group that does not fit, ours first, is noted as too long: what it forbids is not known, so
    nothing is asked for on its account. Comments, other agents' groups and sitemaps go.
    """
    if len(packed(copy.text)) <= MAX_KEPT_BYTES or not 200 <= copy.status < 300:
        return copy
    text, parts = _text(copy.text), list[tuple[str, list[str]]]()
    names = tuple(dict.fromkeys(name.lower() for name in (product, *before)))[:_MOST_PRODUCTS]
    for name in names:
        own, others = _groups(text, name)
        if own is not None:
            parts.append((name, own))
        if name == names[0]:
            parts.append((_OURS, others))
    kept, too_long = b"", list[str]()
    for name, lines in parts:
        more = kept + "\n".join((f"User-agent: {name}", *lines, "")).encode()
        if len(lines) > MAX_RULES or len(packed(more)) > MAX_KEPT_BYTES:
            too_long.append(name)
        else:
            kept = more
    return replace(copy, text=kept, products=names, too_long=tuple(too_long))


def _read(text: str, too_long: Collection[str], product: str) -> _Rules:
    """Parse the groups that name the product, or those for all if none does (2.2.1)."""
    own, others = _groups(text, product)
    if product in too_long or (own is None and _OURS in too_long):
        return _Rules(None, None, _TOO_LONG)
    lines = others if own is None else own
    if not lines:
        return _Rules(None, None)
    wildcards = sum("*" in line for line in lines)
    if len(lines) > MAX_RULES:
        return _Rules(None, None, f"has more than {MAX_RULES:,} rules, which are not all read")
    if wildcards > MAX_WILDCARDS:
        return _Rules(None, None, f"has more than {MAX_WILDCARDS:,} rules with a *, too many")
    parsed = Protego.parse("\n".join((f"User-agent: {_OURS}", *lines)))
    return _Rules(parsed, parsed.crawl_delay(_OURS))


def _groups(text: str, product: str) -> tuple[list[str] | None, list[str]]:
    """Collect the lines of the product's groups, None without any, and of the groups for all.

    A group is agents, then rules; the next agent after a rule begins another one.
    """
    own: list[str] | None = None
    others: list[str] = []
    naming = False
    is_own = is_others = False
    for line in text.split("\n"):
        line = line.partition("#")[0].strip()  # noqa: PLW2901  the comment is no part of it
        if not line or len(line) > _LONGEST_LINE:
            continue
        agent = _AGENT.match(line)
        if agent is not None:
            if not naming:
                naming, is_own, is_others = True, False, False
            named = _PRODUCT.match(agent[1])
            if agent[1].startswith("*"):
                is_others = True
            elif product and named is not None and named[0].lower() == product:
                is_own = True
                own = [] if own is None else own
            continue
        if _SITE_WIDE.match(line):
            continue
        if ":" in line or _RULE.match(line):
            naming = False
        if (is_own or is_others) and (rule := _RULE.match(line)) and rule[1]:
            if is_own and own is not None and len(own) <= MAX_RULES:
                own.append(line)
            if is_others and len(others) <= MAX_RULES:
                others.append(line)
    return own, others


def _line(parsed: Protego, url: str) -> str:
    """Find the rule that forbids a page, if this version of protego shows it; else the page's path.

    protego has no public name for it.
    """
    try:
        from protego._utils import _quote_path

        found = parsed._get_matching_rule_set(_OURS)  # noqa: SLF001  see above
        path = _quote_path(url)
        rules = found._rules if found else []  # noqa: SLF001  see above
        for rule in rules:
            if rule.value.match(path):
                return f"Disallow: {rule.value._pattern[:200]}"  # noqa: SLF001  see above
    except (ImportError, AttributeError, TypeError):
        pass
    return f"Disallow: (a rule for {urlsplit(url).path[:200] or '/'})"


class RulesShelf:
    """Keep the rules of the most recent sites within about ``max_bytes``. Not for threads."""

    def __init__(self, *, max_bytes: int = 32_000_000, max_sites: int = 2_000) -> None:
        self._max_bytes, self._max_sites = max_bytes, max_sites
        self._bytes = 0
        self._sites: OrderedDict[str, tuple[SiteRules, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sites)

    def get(self, origin: str, now_ms: int) -> SiteRules | None:
        """Get the site's rules, unless they are too old or unknown."""
        found = self._sites.get(origin)
        if found is None:
            return None
        rules, until_ms = found
        if until_ms <= now_ms:
            self._drop(origin)
            return None
        self._sites.move_to_end(origin)
        return rules

    def put(self, rules: SiteRules, until_ms: int) -> None:
        """Keep a site's rules until then, or until others need their room."""
        self._drop(rules.origin)
        self._sites[rules.origin] = (rules, until_ms)
        self._bytes += rules.weight
        while len(self._sites) > self._max_sites or (
            self._bytes > self._max_bytes and len(self._sites) > 1
        ):
            self._drop(next(iter(self._sites)))

    def _drop(self, origin: str) -> None:
        found = self._sites.pop(origin, None)
        if found is not None:
            self._bytes -= found[0].weight
