"""Knows the kinds of objects by the names that people use for them, as kubectl's users do."""

from difflib import get_close_matches
from typing import NamedTuple

from stellwerk.cli.errors import usage

PLACEMENT = "Placement"
ALL = "all"
ALIASES: dict[str, tuple[str, ...]] = {
    "ResourceFlavor": ("resourceflavor", "resourceflavors", "flavor", "flavors", "rf"),
    "ClusterQueue": ("clusterqueue", "clusterqueues", "cq", "queue", "queues"),
    "Cohort": ("cohort", "cohorts"),
    "LocalQueue": ("localqueue", "localqueues", "lq"),
    "WorkloadPriorityClass": (
        "workloadpriorityclass", "workloadpriorityclasses", "wpc", "priorityclass",
        "priorityclasses",
    ),
    "PriorityClass": ("pc", "priorityclass", "priorityclasses"),
    "Topology": ("topology", "topologies"),
    "AdmissionCheck": ("admissioncheck", "admissionchecks", "ac"),
    "Namespace": ("namespace", "namespaces", "ns"),
    "Configuration": ("configuration", "configurations", "config"),
    PLACEMENT: ("placement", "placements", "pl"),
}  # fmt: skip
"""Every kind that can be looked at and deleted, with all of its names."""
SPACED = ("LocalQueue", PLACEMENT)
ELSEWHERE = {
    **dict.fromkeys(("cluster", "clusters", "node", "nodes"), "stw clusters"),
    **dict.fromkeys(("workload", "workloads", "wl", "job", "jobs", "pod", "pods"), "stw ps"),
    **dict.fromkeys(("event", "events"), "stw events"),
}
"""What isn't applied, and which verb lists it."""


class Named(NamedTuple):
    """An object that a person named."""

    kind: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """``name`` or ``namespace/name``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def kinds_of(word: str) -> list[str]:
    """The kinds that a word stands for; a group behind it (`cohorts.kueue.x-k8s.io`) is allowed."""
    lower = word.partition(".")[0].lower()
    if lower == ALL:
        return list(ALIASES)
    found = [kind for kind, names in ALIASES.items() if lower in names]
    if found:
        return found
    if lower in ELSEWHERE:
        message = f"`{word[:60]}` isn't a kind of object that is applied"
        raise usage("usage/kind", message, f"`{ELSEWHERE[lower]}` lists those")
    known = [name for names in ALIASES.values() for name in names]
    close = get_close_matches(lower, known, 1)
    short = ", ".join(names[0] for names in ALIASES.values())
    help = f"did you mean `{close[0]}`?" if close else f"kinds are: {short}, or all"
    raise usage("usage/kind", f"there is no kind `{word[:60]}`", help)


def wanted_of(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The kinds and names of `KIND NAME...`, `KIND/NAME...` or `KIND,KIND`."""
    first, rest = words[0], list(words[1:])
    if "/" in first:
        pairs = [word.partition("/") for word in words]
        if len({kind for kind, _, _ in pairs}) > 1 or not all(name for _, _, name in pairs):
            raise usage(
                "usage/kind", "with KIND/NAME all are of one kind", "name one after another"
            )
        return kinds_of(pairs[0][0]), [name for _, _, name in pairs]
    kinds = [kind for word in first.split(",") for kind in kinds_of(word)]
    return list(dict.fromkeys(kinds)), rest


def named(kind: str, name: str, namespace: str) -> Named:
    """An object by its kind and name; of a kind with namespaces `NAMESPACE/NAME` counts too."""
    if kind not in SPACED:
        return Named(kind, "", name)
    space, slash, rest = name.rpartition("/")
    return Named(kind, space if slash else namespace or "default", rest)


def short(kind: str) -> str:
    """`ClusterQueue` as it stands before a name: `clusterqueue`."""
    return kind.lower()
