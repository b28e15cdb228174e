"""A name server of the tests' own, for addresses that begin with ``mongodb+srv://``.

The driver asks dnspython, which asks it here; names below the zone lead to the loopback address.
"""

import enum
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.resolver
import dns.rrset
import pytest

ZONE = "crawlfleet.test"
#: The name that an address has, and that of a member that its answers lead to.
CLUSTER = f"cluster.{ZONE}"
MEMBER = f"member.{ZONE}"
_LOOPBACK = "127.0.0.1"
#: How long a slow one takes.
SLOW_SECONDS = 1.0


class Mood(enum.Enum):
    """The name server's answers."""

    WELL = enum.auto()
    #: Never a word, or too late.
    SILENT = enum.auto()
    SLOW = enum.auto()
    #: SERVFAIL, REFUSED, and that there is no such name.
    FAILING = enum.auto()
    REFUSING = enum.auto()
    UNKNOWN = enum.auto()
    #: No records, bytes that are no message, and a host of somebody else.
    EMPTY = enum.auto()
    GARBAGE = enum.auto()
    LYING = enum.auto()
    #: Options beside the hosts: more than one text, bytes that are no text, none that may be there.
    TWO_TEXTS = enum.auto()
    NO_TEXT = enum.auto()
    WRONG_OPTION = enum.auto()


_CODES = {
    Mood.FAILING: dns.rcode.SERVFAIL,
    Mood.REFUSING: dns.rcode.REFUSED,
    Mood.UNKNOWN: dns.rcode.NXDOMAIN,
}
_TEXTS = {
    Mood.TWO_TEXTS: ['"replicaSet=crawlfleet"', '"authSource=admin"'],
    Mood.NO_TEXT: [r'"replicaSet=\255\254"'],
    Mood.WRONG_OPTION: ['"tlsInsecure=true"'],
}


class NameServer:
    """Answers for one cluster; a test sets who its members are and how they are told."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.mood = Mood.WELL
        #: Names that were asked for, in their order.
        self.asked: list[str] = []
        self._late: list[threading.Timer] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((_LOOPBACK, 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (_LOOPBACK, self.port))
        self._thread.join()
        for later in self._late:
            later.cancel()
            later.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            packet, caller = self._socket.recvfrom(4096)
            if not packet:
                return
            mood, answer = self.mood, self._answer(packet, self.mood)
            if mood is Mood.SLOW:
                later = threading.Timer(SLOW_SECONDS, self._socket.sendto, (answer, caller))
                self._late.append(later)
                later.start()
            elif mood is not Mood.SILENT:
                self._socket.sendto(answer, caller)

    def _answer(self, packet: bytes, mood: Mood) -> bytes:
        query = dns.message.from_wire(packet)
        [question] = query.question
        self.asked.append(question.name.to_text(omit_final_dot=True))
        if mood is Mood.GARBAGE:
            return packet[:2] + b"\xff" * 40
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        answer.set_rcode(_CODES.get(mood, dns.rcode.NOERROR))
        if mood not in {*_CODES, Mood.EMPTY}:
            found = self._records(question.rdtype, mood)
            if found:
                answer.answer.append(
                    dns.rrset.from_text_list(question.name, 60, "IN", question.rdtype, found)
                )
        return answer.to_wire()

    def _records(self, kind: dns.rdatatype.RdataType, mood: Mood) -> list[str]:
        if kind == dns.rdatatype.TXT:
            return _TEXTS.get(mood, ['"replicaSet=crawlfleet"'])
        host = "member.elsewhere.test" if mood is Mood.LYING else MEMBER
        return [f"0 0 {port} {host}." for port in self.ports]


@contextmanager
def name_server() -> Iterator[NameServer]:
    """A name server that this process asks, and nobody else."""
    server = NameServer()
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers, resolver.port = [_LOOPBACK], server.port
    before = socket.getaddrinfo

    def getaddrinfo(host, *args, **options):
        known = isinstance(host, str) and host.endswith(f".{ZONE}")
        return before(_LOOPBACK if known else host, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dns.resolver, "default_resolver", resolver)
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        try:
            yield server
        finally:
            server.close()


def srv_uri(options: str = "tls=false") -> str:
    """The address of the cluster, as Atlas gives it but for TLS."""
    return f"mongodb+srv://{CLUSTER}/?{options}"
