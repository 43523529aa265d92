"""What a look at a cache or a folder gives: what is held, and what a person should know of it."""

from msgspec import Struct

from stellwerk.core.model.cluster import Held
from stellwerk.core.model.errors import Notice


class Found(Struct, frozen=True):
    """Held data sets, with notices about figures that were missing, odd or not believed."""

    held: tuple[Held, ...] = ()
    notices: tuple[Notice, ...] = ()
