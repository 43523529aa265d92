"""What a shell completes beside names of workloads: files, places in a job, clusters and nodes."""

import os
from collections.abc import Sequence
from functools import partial

import click
from click.shell_completion import CompletionItem

from stellwerk.cli.places import AREAS
from stellwerk.cli.session import complete_names, remembered
from stellwerk.client.api import Client


def complete_file(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Files here, which the shell knows best."""
    return [CompletionItem(incomplete, type="file")]


def complete_folder(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Folders here."""
    return [CompletionItem(incomplete, type="dir")]


def complete_source(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """`NAME:`, then `NAME:outputs:` and its like; a path in a job is for the person to type."""
    name, mark, _ = incomplete.partition(":")
    if not mark:
        return [f"{found}:" for found in complete_names(ctx, param, incomplete)]
    areas = [f"{name}:{area}:" for area in AREAS if area != "work"]
    return [area for area in areas if area.startswith(incomplete)]


def complete_area(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """`outputs:`, `checkpoints:`."""
    areas = [f"{area}:" for area in AREAS if area != "work"]
    return [area for area in areas if area.startswith(incomplete)]


def complete_clusters(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of clusters."""
    return _starting(remembered("clusters", _clusters), incomplete)


def complete_nodes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of clusters, and `CLUSTER/NODE`."""
    return _starting(remembered("nodes", _nodes), incomplete)


def complete_own_nodes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The machines of the job that is named before."""
    name = str(ctx.params.get("name") or ctx.params.get("source") or "").partition(":")[0]
    told = remembered(f"nodes of {name.replace(os.sep, '_')}", partial(_own_nodes, name))
    return _starting(told, incomplete)


def complete_queues(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Queues in which something waits."""
    return _starting(remembered("queues", _queues), incomplete)


def _starting(words: Sequence[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _clusters(client: Client) -> list[str]:
    return [cluster.name for cluster in client.clusters()]


def _nodes(client: Client) -> list[str]:
    return [
        place
        for cluster in client.clusters()
        for place in (cluster.name, *(f"{cluster.name}/{node.name}" for node in cluster.nodes))
    ]


def _own_nodes(name: str, client: Client) -> list[str]:
    runs = client.get(name).runs
    return list(runs[-1].nodes) if runs else []


def _queues(client: Client) -> list[str]:
    return list(dict.fromkeys(row.queue for row in client.list(phase=["Pending", "Held"])))
