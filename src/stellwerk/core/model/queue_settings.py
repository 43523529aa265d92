"""The settings that bound what queueing may do to people: numbers, each with what it says."""

QUEUE_SETTINGS: dict[str, tuple[str, int]] = {
    "preemption_min_runtime_s": ("how long a run isn't stopped for others", 120),
    "preemptions_at_once": ("for how many workloads at a time others are stopped", 32),
    "preemptions_per_day": ("how often a day one workload is stopped for others; 0 any number", 8),
    "preemptions_per_hour": ("how many runs an hour are stopped on a cluster; 0 any number", 0),
    "protected_max_s": ("how long people may protect a run; 0 not at all", 8 * 3600),
    "protected_gpus": ("how many GPUs protected work of each may ask for; 0 any number", 0),
    "aging_per_hour": ("how much priority waiting work gains an hour; 0 none", 0),
    "aging_most": ("how much it gains at most", 100),
}
