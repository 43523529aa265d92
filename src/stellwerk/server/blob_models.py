"""What the API says of contents in the store: which are asked for, missing, and kept."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stellwerk.server.models import Hash


class Hashes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hashes of content (SHA-256, hex)."""

    hashes: Annotated[list[Hash], Meta(max_length=200_000)]


class Missing(msgspec.Struct, frozen=True):
    """Those of the hashes asked for whose content isn't in the store."""

    missing: list[str]


class Kept(msgspec.Struct, frozen=True):
    """How many contents a batch had, and how many of them the store didn't have before."""

    count: int
    new: int
