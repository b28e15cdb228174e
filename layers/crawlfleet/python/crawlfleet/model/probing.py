"""What a worker's way to a site is known by, and why it may not be known now (SPEC.md B4)."""

import msgspec


class ProbeKey(msgspec.Struct, frozen=True, kw_only=True):
    """Ways that are taken to be alike: one biz's downloads, from one pool, to one origin.

    ``origin`` is scheme, host and port, as of policy.robots.origin_of.
    """

    tenant: str
    biz: str
    pool: str
    origin: str


class NotJudged(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is known of the way now, and that is not the site's doing or not its last word.

    ``why`` is for people; it is worth asking again in ``again_seconds``.
    """

    why: str
    again_seconds: float
