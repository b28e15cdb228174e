"""May the worker connect to this address? Asked by the fetcher for each socket it opens (H5).

A tenant names hosts, and a host's owner names addresses: both are taken for the attacker. What is
asked about is therefore the address of the socket, never a name, so that neither a name server
that changes its mind nor an odd spelling of an address gets past. The tables are our own rather
than ``ipaddress.is_global``, whose answers differ between the Python versions we run on.
"""

import ipaddress
from typing import Final

#: IPv4 that is nobody's website (the IANA special-purpose registry), and what clouds keep there.
_REFUSED_V4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network; Linux takes 0.0.0.0 for loopback
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; a cloud's metadata at 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host agent, on a public address
        "169.254.0.0/16",  # link-local; metadata at 169.254.169.254
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata at 192.0.0.192
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays, retired
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

#: The only IPv6 that is routed in public. Outside lie loopback, private (fc00::/7, with metadata at
#: fd00:ec2::254), link-local, multicast and local NAT64 (64:ff9b:1::/48).
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, Teredo (2001::/32) and ORCHID among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, retired: an IPv4 address in disguise
        "3fff::/20",  # documentation
    )
)

#: IPv6 whose last 32 bits are the IPv4 address that it leads to.
_EMBEDDING: Final = (
    ipaddress.IPv6Network("::ffff:0:0/96"),  # IPv4-mapped
    ipaddress.IPv6Network("64:ff9b::/96"),  # NAT64, by which an IPv6-only subnet reaches IPv4
)


def is_public(address: str) -> bool:
    """Whether a stage that allows no private addresses may connect to this one.

    >>> is_public("93.184.215.14"), is_public("169.254.169.254"), is_public("::ffff:10.0.0.1")
    (True, False, False)

    What is no address in its canonical spelling is not public.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return _is_public_v4(ip)
    if any(ip in network for network in _EMBEDDING):
        return _is_public_v4(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return ip in _GLOBAL_V6 and not any(ip in network for network in _REFUSED_V6)


def _is_public_v4(ip: ipaddress.IPv4Address) -> bool:
    return not any(ip in network for network in _REFUSED_V4)
