"""Decides what `infra` means: `kind[/place[/part]]`, with wildcards, in one spelling."""

from __future__ import annotations

from typing import NamedTuple

from stellwerk.core.describe.fields import did_you_mean, text
from stellwerk.core.describe.nodes import Node, Report

OWN_KINDS = ("local", "ssh", "slurm", "kubernetes", "ocm", "room")
CLOUDS = (
    "aws", "azure", "cudo", "do", "fluidstack", "gcp", "hyperbolic", "ibm", "lambda", "mithril",
    "nebius", "oci", "paperspace", "primeintellect", "runpod", "scp", "seeweb", "shadeform", "vast",
    "verda", "vsphere", "yotta",
)  # fmt: skip
KINDS = (*OWN_KINDS, *CLOUDS)
HELP = "write `ssh/POOL`, `slurm/CLUSTER/PARTITION`, `k8s/CONTEXT` or `CLOUD/REGION/ZONE`"
WHOLE_REST = ("kubernetes", "ssh")
"""Kinds behind which all is one name: those of contexts and pools may have slashes of their own."""


class Where(NamedTuple):
    """The parts of an infra string; None where anything will do."""

    kind: str | None = None
    place: str | None = None
    part: str | None = None

    def text(self) -> str | None:
        """The one spelling: wildcards only where something follows; None for anywhere."""
        parts = [part or "*" for part in self]
        while parts and parts[-1] == "*":
            parts.pop()
        return "/".join(parts) or None


def parse_infra(written: str) -> Where | str:
    """The parts of an infra string, or a sentence that says why it is none."""
    parts = [part.strip() for part in written.split("/")]
    if "" in parts:
        return f"`{written[:80]}` has an empty part" if written.strip() else "`infra` is empty"
    kind = {"k8s": "kubernetes"}.get(parts[0].lower(), parts[0].lower())
    if kind in WHOLE_REST:
        return Where(kind, _named("/".join(parts[1:])))
    if kind != "*" and kind not in KINDS:
        return f"`{parts[0][:40]}` is no kind of infrastructure"
    if len(parts) > 3:
        return f"`{written[:80]}` has more than three parts"
    padded = [*parts, "*", "*"]
    return Where(_named(kind), _named(padded[1]), _named(padded[2]))


def split_infra(infra: str | None) -> Where:
    """The parts of an `infra` that has been read already."""
    parsed = parse_infra(infra or "*")
    return parsed if isinstance(parsed, Where) else Where(infra)


def infra(report: Report, node: Node, path: str) -> Where | None:
    """A reader of `infra`."""
    written = text(report, node, path)
    if written is None:
        return None
    parsed = parse_infra(written)
    if isinstance(parsed, Where):
        return parsed
    first = written.split("/", maxsplit=1)[0].strip()
    remedy = did_you_mean(first, (*KINDS, "k8s")) if first.lower() not in KINDS else ""
    report.problem("spec/infra", node, path, parsed, remedy or HELP)
    return None


def cloud(report: Report, node: Node, path: str) -> str | None:
    """A reader of the old `cloud`: only the kind, in any case."""
    written = text(report, node, path)
    parsed = parse_infra(written) if written else None
    if isinstance(parsed, Where) and parsed.kind and not parsed.place:
        return parsed.kind
    if written is not None:
        remedy = did_you_mean(written, (*KINDS, "k8s")) or "use `infra` instead: " + HELP
        report.problem("spec/infra", node, path, f"`{written[:40]}` is no cloud", remedy)
    return None


def _named(part: str) -> str | None:
    return None if part in {"", "*"} else part
