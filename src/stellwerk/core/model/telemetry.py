"""What a run tells of itself while it goes on: its metrics, and what it uses. Never journaled."""

from msgspec import Struct


class Metric(Struct, frozen=True):
    """The values of one name so far.

    ``last`` may be NaN or infinite; ``min`` and ``max`` are of the finite values. ``not_finite``
    counts the others, of which the first came at ``bad_step``. ``step`` is that of ``last``.
    """

    last: float
    at_ms: int
    n: int
    step: int | None = None
    min: float | None = None
    max: float | None = None
    not_finite: int = 0
    bad_step: int | None = None


class GpuUse(Struct, frozen=True, omit_defaults=True):
    """One device of a machine: memory that the run holds on it, how busy all of it is, and what of
    its memory is free.
    """

    index: int
    memory_bytes: int | None = None
    busy_percent: int | None = None
    free_bytes: int | None = None


class GpusHeld(Struct, frozen=True):
    """What a run holds of the devices of its machine, as last sampled at ``at_ms``.

    ``idle_ms`` is for how long none of those that it was given was busy (None: nobody could tell).
    """

    at_ms: int
    gpus: tuple[GpuUse, ...]
    idle_ms: int | None = None


class Usage(Struct, frozen=True):
    """What a run uses, as last sampled at ``at_ms``, and the most it was seen to use.

    ``cpus`` is how many processors it kept busy between the last two samples; what only a GPU could
    tell is None without one. ``peak_gpu_card_bytes`` is the most on any one device.
    """

    at_ms: int
    memory_bytes: int
    cpu_ms: int
    processes: int
    cpus: float | None = None
    gpu_memory_bytes: int | None = None
    gpu_busy_percent: int | None = None
    peak_memory_bytes: int = 0
    peak_processes: int = 0
    peak_gpu_memory_bytes: int | None = None
    peak_gpu_card_bytes: int | None = None


class Telemetry(Struct, frozen=True):
    """All that is known of a run beside the facts.

    ``quiet_ms`` is for how long nothing has moved: no metric came to a new step, or, where there
    are no metrics, nothing was printed. ``gpu_idle_ms`` is for how long none of the run's devices
    was busy, ``idle_ms`` for how long nothing of it, and nobody inside of it, used a processor or
    a device, typed or transferred anything. Only time counts in which somebody looked; None means
    that nobody could tell.
    """

    metrics: dict[str, Metric] = {}
    usage: Usage | None = None
    quiet_ms: int | None = None
    gpu_idle_ms: int | None = None
    idle_ms: int | None = None
