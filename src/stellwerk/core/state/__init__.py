"""The live state, its persisted image, and ``fold``, the only way it changes."""

from stellwerk.core.state.folding import fold
from stellwerk.core.state.live import IMAGE_SCHEMA, State, StateImage
from stellwerk.core.state.shapes import QueueKey, ShapeQueue, Waits, queue_key

__all__ = [
    "IMAGE_SCHEMA",
    "QueueKey",
    "ShapeQueue",
    "State",
    "StateImage",
    "Waits",
    "fold",
    "queue_key",
]
