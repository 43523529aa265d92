"""Where scores of clusters come from: a command, an HTTP address, or a query to Prometheus."""

from msgspec import Struct

LOWEST, HIGHEST = -100, 100
MINUTE_MS = 60_000


class ScoreSource(Struct, frozen=True, omit_defaults=True):
    """Something that tells scores of clusters by name, asked again and again.

    It becomes score object ``name`` of each cluster that it names. ``command`` or ``url`` is asked
    every ``every_ms``, for ``timeout_ms`` at most; what it told holds for ``valid_ms``. ``at`` is
    the way to the scores in what it answers (``data.items``). ``query`` makes it Prometheus, whose
    results name their cluster by ``label``; a plain number is the score called ``score``. ``scale``
    are the numbers that become -100 and 100; None = as they are.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    query: str = ""
    at: str = ""
    label: str = "cluster"
    score: str = "value"
    every_ms: int = MINUTE_MS
    valid_ms: int = 5 * MINUTE_MS
    timeout_ms: int = 10_000
    scale: tuple[float, float] | None = None
