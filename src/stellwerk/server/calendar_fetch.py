"""Reads a calendar from an address, and lets nobody reach anything else by that.

An address is looked up once and the answer is what is connected to, so that no second look-up can
lead elsewhere. Loopback, link-local and private addresses are refused unless that was allowed.
Size, time and redirects are bounded.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import SplitResult, urljoin, urlsplit

from stellwerk.core.model.calendars import MOST_TEXT
from stellwerk.core.model.errors import StellwerkError

MOST_REDIRECTS = 3
MOST_S = 20.0
PART = 64 * 1024
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
REDIRECTS = (301, 302, 303, 307, 308)


def fetch(url: str, seconds: Callable[[], float], *, private: bool = False) -> str:
    """The text at an address; raises StellwerkError with why it can't be had.

    ``seconds`` is a clock that never goes back.
    """
    deadline = seconds() + MOST_S
    if url[:7].lower() == "webcal:":
        url = f"https:{url[7:]}"
    for _ in range(MOST_REDIRECTS + 1):
        try:
            text, elsewhere = _once(urlsplit(url), seconds, deadline, private=private)
            there = urljoin(url, elsewhere)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _refused(url, f"can't be read: {str(error) or type(error).__name__}") from error
        if text is not None:
            return text
        url = there
    raise _refused(url, f"leads elsewhere more than {MOST_REDIRECTS} times")


def _refused(url: str, why: str) -> StellwerkError:
    return StellwerkError.of(
        "calendar/address", f"{url[:120]} {why}", "save the calendar to a file and import that"
    )


def _once(
    parts: SplitResult, seconds: Callable[[], float], deadline: float, *, private: bool
) -> tuple[str | None, str]:
    """The text, or None with where it is instead."""
    url = parts.geturl()
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _refused(url, "isn't an address that begins with https:// or http://")
    if parts.username or parts.password:
        raise _refused(url, "has a name or password in it")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address(url, parts.hostname, port, private=private)
    wait_s = max(0.1, deadline - seconds())
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=wait_s)
    wire = socket.create_connection((address, port), timeout=wait_s)

    def cut() -> None:
        with suppress(OSError):
            socket.socket.shutdown(wire, socket.SHUT_RDWR)

    # Bounds also a greeting that comes byte by byte, for which each byte would be in time.
    watch = threading.Timer(wait_s + 1, cut)
    watch.daemon = True
    watch.start()
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            wire = context.wrap_socket(
                wire, server_hostname=parts.hostname, do_handshake_on_connect=False
            )
            wire.do_handshake()
        connection.sock = wire
        where = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", where, headers={"Accept": "text/calendar"})
        with connection.getresponse() as answer:
            if answer.status in REDIRECTS:
                return None, answer.headers.get("Location", "")
            if answer.status != 200:
                raise _refused(url, f"answers {answer.status} {answer.reason}")
            return _text(url, answer, wire, seconds, deadline), ""
    finally:
        watch.cancel()
        connection.close()
        wire.close()


def _address(url: str, host: str, port: int, *, private: bool) -> str:
    """Where a host is, by number; all that it has must be allowed."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(one[4][0]).partition("%")[0] for one in found]
    for one in addresses:
        at = _meant(ipaddress.ip_address(one))
        if not private and not (at.is_global and not at.is_multicast):
            raise _refused(url, f"is at {one}, which isn't on the internet (--private allows it)")
    return addresses[0]


def _meant(at: Address) -> Address:
    """Where an address leads that has one of the old kind in it, as gateways read it."""
    if isinstance(at, ipaddress.IPv4Address):
        return at
    if at in NAT64:
        return ipaddress.IPv4Address(int(at) & 0xFFFF_FFFF)
    return at.ipv4_mapped or at.sixtofour or at


def _text(
    url: str,
    answer: http.client.HTTPResponse,
    wire: socket.socket,
    seconds: Callable[[], float],
    deadline: float,
) -> str:
    content = bytearray()
    while True:
        left_s = deadline - seconds()
        if left_s <= 0:
            raise _refused(url, f"takes longer than {MOST_S:.0f} s")
        wire.settimeout(left_s)
        part = answer.read1(PART)
        if not part and seconds() < deadline:
            break
        content += part
        if len(content) > MOST_TEXT:
            raise _refused(url, f"has more than {MOST_TEXT >> 20} MiB")
    return content.decode("utf-8-sig", "replace")
