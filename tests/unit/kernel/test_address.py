"""The addresses a worker may connect to."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import is_public

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "223.255.255.255",
    "168.63.129.15",
    "2606:4700::1111",
    "2a00:1450:4001:82a::200e",
    "2600::",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]

REFUSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a00:1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "2002:808:808::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:20::1",
]

NO_ADDRESS = [
    "",
    "localhost",
    "127.1",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "1.1.1.1 ",
    "[::1]",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_may_be_connected_to(address):
    assert is_public(address)


@pytest.mark.parametrize("address", REFUSED)
def test_address_of_the_inside_is_refused(address):
    assert not is_public(address)


@pytest.mark.parametrize("text", NO_ADDRESS)
def test_what_is_no_address_in_its_usual_form_is_refused(text):
    assert not is_public(text)


@given(st.ip_addresses(v=4))
def test_ipv4_is_judged_alike_however_ipv6_embeds_it(address):
    number = int(address)
    embedded = [
        ipaddress.IPv6Address((0xFFFF << 32) | number),
        ipaddress.IPv6Address((0x64FF9B << 96) | number),
    ]

    assert {is_public(str(ip)) for ip in embedded} == {is_public(str(address))}


@given(st.ip_addresses(v=4))
def test_ipv4_that_the_standard_library_calls_inside_is_refused(address):
    inside = address.is_private or address.is_multicast or address.is_reserved

    assert not (inside and is_public(str(address)))


@given(st.ip_addresses(v=6))
def test_ipv6_that_the_standard_library_calls_inside_is_refused(address):
    embeds = address.ipv4_mapped or address in ipaddress.ip_network("64:ff9b::/96")
    inside = address.is_private or address.is_multicast or address.is_link_local

    assert embeds or not (inside and is_public(str(address)))
