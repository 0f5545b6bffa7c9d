"""Decides which foreign URLs may be requested at all. Pure: resolves no names and opens no connections.

With a URL in a message, a stranger asks this machine to make a request, and this machine is inside a network: its
loopback, its neighbors, its cloud's metadata service. So a URL is checked twice. `public_url` checks the text: scheme,
port, user info, and names and numbers that can't be public. `is_public` checks the IP address of each connection when
it is opened, because a name may resolve differently by then (rebinding).

For IPv6 only the public block in use is allowed, without its tunnels, which embed an unchecked IPv4 address. The
registries are iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from yarl import URL

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

PORTS = frozenset({80, 443})
MAX_URL = 2048  # characters

_IPV4_CLOSED = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; Alibaba's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's wire server, a public address that only its own machines reach
        "169.254.0.0/16",  # link-local, most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_IPV6_OPEN = ipaddress.IPv6Network("2000::/3")  # outside: mapped, compatible, NAT64, ULA, link-local, multicast
_IPV6_CLOSED = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
_ISATAP = (0x00005EFE, 0x02005EFE)  # the middle of an IPv6 address whose last 32 bits are an IPv4 address

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_HOME_NAMES = (
    *("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa"),
)


class FetchRefused(Exception):
    """A fetch was refused or failed. `reason` is one short line without the URL."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_public(address: IPAddress) -> bool:
    """Return whether a connection may go to this IP address."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in block for block in _IPV4_CLOSED)
    if address.scope_id is not None or address not in _IPV6_OPEN or any(address in block for block in _IPV6_CLOSED):
        return False
    return (int(address) >> 32) & 0xFFFFFFFF not in _ISATAP


def client_network(address: str) -> str:
    """Return the part of a client's address that belongs to one person: all of IPv4, or the first half of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address) or found.is_loopback:
        return str(found)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found), 64), strict=False))


def public_url(text: str, ports: Collection[int] = PORTS) -> URL:
    """Parse and check a URL. Raises FetchRefused. A name as its host is checked again when it is resolved."""
    url = parsed_url(text)
    if url.scheme not in ("http", "https"):
        raise FetchRefused("neither http nor https")
    if url.port not in ports:
        raise FetchRefused("a port that isn't allowed")
    if "[" in text.partition("://")[2].partition("/")[0] and ":" not in (url.raw_host or ""):
        raise FetchRefused("not an address")  # [v1.a]: brackets around something other than IPv6
    host = url.raw_host or ""
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        _check_name(host.lower())
        return url
    if not is_public(number):
        raise FetchRefused("an address that isn't public")
    return url


def parsed_url(text: str) -> URL:
    """Parse an absolute URL with a host and without user info. Raises FetchRefused."""
    if len(text) > MAX_URL or "\\" in text or any(char.isspace() or not char.isprintable() for char in text):
        raise FetchRefused("not an address")
    try:
        url = URL(text)
        if not (url.absolute and url.scheme and url.raw_host and url.port != 0):
            raise ValueError
    except ValueError:
        raise FetchRefused("not an address") from None
    if "@" in text.partition("://")[2].partition("/")[0]:  # even if it is empty, or after a ? or #
        raise FetchRefused("an address with a user name")
    return url


def _check_name(name: str) -> None:
    """Refuse names of home networks, and texts that a resolver may read as numbers: 2130706433, 0x7f.1, 0177.0.0.1."""
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise FetchRefused("not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        raise FetchRefused("a number in disguise")
    if len(labels) == 1 or any(name == home or name.endswith(f".{home}") for home in _HOME_NAMES):
        raise FetchRefused("a name that isn't public")
