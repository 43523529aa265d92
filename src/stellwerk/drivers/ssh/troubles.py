"""Says in words what is wrong with a machine: each cause with its own code and what to do about it.

None of them is final: an order that couldn't be given may be given again when the cause is gone.
"""

import asyncio
import errno
import socket
from typing import Any

import asyncssh

from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.hosts import Host

NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}


class SshTrouble(DriverError):
    """A machine can't be worked with now; ``remedy`` says what may help."""

    def __init__(self, code: str, message: str, remedy: str, **more: Any) -> None:
        told = f"{message} -> {remedy}" if remedy else message
        super().__init__(f"ssh/{code}", f"{told} [ssh/{code}]", final=False)
        self.plain = message
        self.remedy = remedy
        self.more = more


def of_connecting(host: Host, error: BaseException) -> SshTrouble:
    """Why no connection came to be."""
    match error:
        case SshTrouble():
            return error
        case asyncssh.PermissionDenied():
            message = f"{host} lets nobody in with the keys that are here ({error.reason})"
            named = host.for_ssh()
            remedy = f"make `ssh {named}` work without a password: ssh-copy-id {named}"
            return SshTrouble("auth-failed", message, remedy)
        case asyncssh.KeyImportError() | asyncssh.KeyEncryptionError():
            message = f"a key for {host} can't be read: {error}"
            remedy = "give it to an agent and name that with IdentityAgent in ~/.ssh/config"
            return SshTrouble("key-unreadable", message, remedy)
        case asyncssh.ConfigParseError():
            remedy = "mend ~/.ssh/config"
            return SshTrouble("config", f"the SSH configuration can't be read: {error}", remedy)
        case asyncssh.HostKeyNotVerifiable():
            message = f"the host key of {host} (or of a host on the way) isn't trusted"
            remedy = f"log in once with `ssh {host.for_ssh()}`, and compare its fingerprint"
            return SshTrouble("host-key", message, remedy)
        case asyncssh.KeyExchangeFailed():
            message = f"{host} and this machine have no way to encrypt in common: {error.reason}"
            return SshTrouble("no-common-cipher", message, "renew its sshd")
        case TimeoutError() | asyncio.TimeoutError():
            remedy = "is it switched on, and is the port open?"
            return SshTrouble("timeout", f"{host} doesn't answer in time", remedy)
        case socket.gaierror():
            remedy = "check the name, or give it a HostName in ~/.ssh/config"
            return SshTrouble("unknown-name", f"nobody knows the name {host.host}", remedy)
        case ConnectionRefusedError():
            remedy = "is sshd running there, on this port?"
            if not host.port:
                remedy += f" (22, or the `Port` of ~/.ssh/config; {host}:PORT names another)"
            return SshTrouble("refused", f"{host} refuses connections", remedy)
        case OSError() if error.errno in NO_ROUTE:
            remedy = "is it switched on, and is the network (or VPN) up?"
            return SshTrouble("no-route", f"there is no way to {host}: {error.strerror}", remedy)
        case OSError() | asyncssh.Error():
            said = getattr(error, "reason", "") or str(error)
            return SshTrouble("connection-lost", f"the connection to {host} broke: {said}", "")
        case _:
            return SshTrouble("fault", f"{host} can't be reached: {error!r:.200}", "")


def of_host_key(
    host: Host, fingerprint: str, *, changed: bool, forget: str = "", other_named: bool = False
) -> SshTrouble:
    """A key that nobody has accepted, or another than was accepted.

    ``forget`` is the command that removes the old one; ``other_named``: somebody has named
    fingerprints, and this isn't one of them.
    """
    more = {"fingerprint": fingerprint, "changed": changed}
    if changed:
        message = f"{host} shows another host key than before: {fingerprint}"
        remedy = (
            f"if it was set up anew, remove the old one with `{forget or 'ssh-keygen -R'}`; "
            "if not, somebody may be in between"
        )
        return SshTrouble("host-key-changed", message, remedy, **more)
    message = f"the host key of {host} isn't known: {fingerprint}"
    if other_named:
        message += ", which isn't what `--accept-host-key` names"
        remedy = (
            "ask the machine itself, by `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; if it "
            "says another one too, somebody may be in between"
        )
        return SshTrouble("host-key-unknown", message, remedy, **more)
    remedy = f"compare it, then add `--accept-host-key {fingerprint}`, or log in once with ssh"
    return SshTrouble("host-key-unknown", message, remedy, **more)


def of_channel(host: Host, error: asyncssh.ChannelOpenError) -> SshTrouble:
    """A connection that lets no (further) command be run."""
    message = f"{host} lets no further command run over its connection ({error.reason})"
    return SshTrouble("max-sessions", message, "raise MaxSessions in its sshd_config (10 is usual)")


def of_shell(host: Host, noise: bytes, *, status: int | None, waited: bool) -> SshTrouble:
    """The login shell never got as far as our command."""
    said = " ".join(noise.decode("utf-8", "replace").split())[-200:]
    said = f"; the last it said: `{said}`" if said else ""
    remedy = "have its start-up files print and ask nothing where there is no terminal"
    if waited:
        message = f"the login shell on {host} doesn't get to a command{said}"
        return SshTrouble("shell-asks", message, remedy)
    message = f"the login shell on {host} ended with {status} before a command{said}"
    return SshTrouble("shell-ends", message, remedy)


def of_boot(host: Host, said: dict[str, Any]) -> SshTrouble:
    """What the command that looks for a Python has found amiss."""
    place, why = said.get("place"), said.get("why")
    match said.get("trouble"):
        case "python":
            found = str(said.get("found") or "").split(" python")
            versions = ", ".join(one.strip().removeprefix("python") for one in found if one.strip())
            message = f"{host} has no Python 3.9 or newer" + (
                f" (there is {versions})" if versions else ""
            )
            remedy = "install one, or name it: `--python /path/to/python3`"
            return SshTrouble("no-python", message, remedy)
        case "full":
            message = f"the disk of {host} is full, or a quota is used up: {place}"
            return SshTrouble("home-full", message, "make room, or name another `--folder`")
        case "no-local-disk":
            places = " and ".join(said.get("places") or ())
            message = f"{places} on {host} lie on network file systems"
            return SshTrouble("no-local-disk", message, "name one on a local disk: `--folder /…`")
        case "damaged":
            return SshTrouble("damaged", f"the runtime arrived damaged at {host}", "")
        case _:
            message = f"{place} on {host} can't be used: {why}"
            return SshTrouble("folder", message, "mend that, or name another `--folder`")
