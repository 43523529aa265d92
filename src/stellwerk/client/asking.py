"""Asks the machine's service to keep one's own runtime there, where an administrator has one.

It is believed only at a socket of root's. Whoever asks is known to it by the kernel's word.
"""

import json
import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

ASK_AT = "/run/stellwerk-people/ask.sock"
VARIABLE = "STELLWERK_PEOPLE_SOCKET"
ANSWER_S = 10.0
MOST = 4096


class Said(NamedTuple):
    """What it answers: whether one's runtime is kept there, why that may not be, why it failed."""

    kept: bool = False
    refused: str = ""
    failed: str = ""


def ask_at(env: Mapping[str, str]) -> str:
    """The socket at which people ask."""
    return env.get(VARIABLE) or ASK_AT


def ask(word: str, server: str, env: Mapping[str, str] = os.environ) -> Said | None:
    """Asks `start`, `stop` or `status`; None where there is no such service for this server."""
    path = ask_at(env)
    try:
        if os.stat(path).st_uid != 0:
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
            service.settimeout(ANSWER_S)
            service.connect(path)
            told = _asked(service, "status")
        if word == "status" or not _is_for(told, server):
            return _said(told) if _is_for(told, server) else None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
            service.settimeout(ANSWER_S)
            service.connect(path)
            return _said(_asked(service, word))
    except (OSError, ValueError):
        return None


def _asked(service: socket.socket, word: str) -> dict[str, object]:
    service.sendall(word.encode() + b"\n")
    said = b""
    while not said.endswith(b"\n") and len(said) < MOST:
        block = service.recv(MOST)
        if not block:
            break
        said += block
    told = json.loads(said)
    if not isinstance(told, dict):
        raise ValueError("it speaks another language")  # noqa: TRY004
    return told


def _is_for(told: Mapping[str, object], server: str) -> bool:
    return os.path.realpath(str(told.get("server"))) == os.path.realpath(server)


def _said(told: Mapping[str, object]) -> Said:
    return Said(
        told.get("kept") is True, str(told.get("refused") or ""), str(told.get("failed") or "")
    )
