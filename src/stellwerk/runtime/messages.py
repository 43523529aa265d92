"""Decides how a hand is spoken with: frames that carry the agent's lines, requests and answers.

A request or an answer is one object and, behind it, bytes as they are. See `hand.py`.
"""

from __future__ import annotations

import json
import struct

from . import frames
from .files import JSONObject, to_json

AGENT = b"a"
"""Both ways: bytes of the connection to the agent."""
HANG_UP = b"h"
"""To the hand: that connection is to end. From it: it has ended."""
ASK = b"q"
"""To the hand: a request."""
ANSWER = b"r"
"""From the hand: an answer."""
PING = b"p"
"""To the hand: its caller is still there."""

SILENCE_S = 180
"""A hand that has heard nothing for so long ends: its caller's machine is gone."""
PING_EVERY_S = 45
PIECE = 512 * 1024
"""Bytes of content that one message carries."""

_HEAD = struct.Struct(">I")


def message(kind: bytes, head: JSONObject, data: bytes = b"") -> bytes:
    """One request or answer as a frame."""
    told = to_json(head)
    return frames.frame(kind, _HEAD.pack(len(told)) + told + data)


def read_message(content: bytes) -> tuple[JSONObject, bytes]:
    """What such a frame holds. Raises ValueError."""
    if len(content) < _HEAD.size:
        raise ValueError("a message has at least four bytes")
    (length,) = _HEAD.unpack_from(content)
    head = json.loads(content[_HEAD.size : _HEAD.size + length])
    if not isinstance(head, dict):
        raise ValueError("the head of a message is a JSON object")  # noqa: TRY004
    return head, content[_HEAD.size + length :]
