"""Finds the network interface by which the ranks of a run reach the place where they meet.

Libraries that guess take the first interface or the host's name, which on lab machines is often
one that leads nowhere (a bridge of containers, an address that no name server knows).
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
from typing import Optional

_GET_ADDRESS = 0x8915
_GET_MASK = 0x891B
_ANY_PORT = 9
_IPV6_INTERFACES = "/proc/net/if_inet6"
NAME_LIMIT_S = 2.0
VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def interface_variables(meeting: str) -> dict[str, str]:
    """What tells NCCL and gloo the interface towards an address; empty where it isn't known."""
    name = interface_towards(meeting)
    return {} if name is None else dict.fromkeys(VARIABLES, name)


def interface_towards(host: str) -> Optional[str]:
    """The interface from which packets to a host leave, on that host itself its own; or None.

    A name is looked up in a child, since a name server may take longer than a start should wait.
    """
    try:
        return _look(host, socket.AI_NUMERICHOST) or _ask_a_child(host)
    except OSError:
        return None


def own_addresses() -> list[str]:
    """The addresses of this machine that others may know: the first of each interface but `lo`,
    then those of IPv6 that aren't of one link alone.
    """
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, request)
            except OSError:
                # This one has no address.
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    try:
        with open(_IPV6_INTERFACES, encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        lines = []
    found += [
        socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))
        for words in lines
        if len(words) > 3 and words[3] == "00"
    ]
    return [address for address in dict.fromkeys(found) if not address.startswith("127.")]


def network_of(address: str) -> Optional[str]:
    """The network of the interface that has an address of IPv4, as `NETWORK/BITS`; None without."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                parts = [
                    fcntl.ioctl(probe.fileno(), get, request) for get in (_GET_ADDRESS, _GET_MASK)
                ]
            except OSError:
                # This one has no address.
                continue
            own, mask = (int.from_bytes(part[20:24], "big") for part in parts)
            if socket.inet_ntoa(parts[0][20:24]) == address:
                network = socket.inet_ntoa((own & mask).to_bytes(4, "big"))
                return f"{network}/{bin(mask).count('1')}"
    return None


def _ask_a_child(host: str) -> Optional[str]:
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            os.write(told, (_look(host, 0) or "").encode())
        finally:
            os._exit(0)
    os.close(told)
    try:
        is_heard = select.select([heard], [], [], NAME_LIMIT_S)[0]
        answer = os.read(heard, 64) if is_heard else b""
    finally:
        os.close(heard)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return answer.decode() or None


def _look(host: str, flags: int) -> Optional[str]:
    try:
        found = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM, flags=flags)
    except (OSError, UnicodeError):
        return None
    for family, kind, _, _, address in found:
        own = _own_address(socket.AddressFamily(family), kind, address)
        if own is not None:
            return _holder(family, own)
    return None


def _own_address(
    family: socket.AddressFamily, kind: int, address: tuple[object, ...]
) -> Optional[str]:
    """The address that the kernel would send from; nothing is sent."""
    try:
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _holder(family: int, own: str) -> Optional[str]:
    if family == socket.AF_INET6:
        return _holder_of_ipv6(own.partition("%")[0])
    if own.startswith("127."):
        own = "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, request)
            except OSError:
                # This one has no address.
                continue
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    return None


def _holder_of_ipv6(own: str) -> Optional[str]:
    wanted = socket.inet_pton(socket.AF_INET6, own).hex()
    try:
        with open(_IPV6_INTERFACES, encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    return next((words[5] for words in lines if words[0] == wanted), None)
