"""What sites ask of robots, looked up before anything else is asked of them (SPEC.md H3, RFC 9309).

A worker knows a site's robots.txt from its first request there on: from the fleet's cache, or by
fetching it. Requests that wait for it are held meanwhile; nothing else is.
"""


