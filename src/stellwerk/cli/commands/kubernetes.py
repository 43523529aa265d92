"""`stw kubernetes`: contexts of a kubeconfig as clusters, and the rights that they need."""

import json
import os
from pathlib import Path

import click

from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.table import Column
from stellwerk.config import load
from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.kubernetes.rbac import rbac_of
from stellwerk.drivers.kubernetes.settings import (
    NAME,
    KubernetesCluster,
    read_clusters,
    write_clusters,
)

COLUMNS: list[Column[KubernetesCluster]] = [
    Column("name", "NAME", lambda one: one.name),
    Column("context", "CONTEXT", lambda one: one.context),
    Column("namespace", "NAMESPACE", lambda one: one.namespace or "(the context's)"),
    Column("image", "IMAGE", lambda one: one.image or "-", grows=True),
]
RESTART = "it is read when the server starts: stw server stop, then stw server start"


@click.group(
    "kubernetes", epilog="Example: stw kubernetes add gpus --context gpus --image python:3"
)
def command() -> None:
    """Kubernetes clusters as places to run on (experimental: one-node jobs).

    To be given on the machine of the server. Needs the extra `kubernetes`.
    """


@command.command("ls", epilog="Example: stw kubernetes ls")
@list_options
def ls(output: Output) -> None:
    """List the clusters that were added."""
    write_list(
        list(read_clusters(_home())),
        COLUMNS,
        output,
        name=lambda one: one.name,
        empty="there are no Kubernetes clusters",
        then="next: stw kubernetes add NAME --context CONTEXT",
    )


@command.command("add", epilog="Example: stw kubernetes add gpus --context gpus --image python:3")
@click.argument("name")
@click.option("--context", required=True, help="A context of the kubeconfig.")
@click.option(
    "--kubeconfig", default="", metavar="PATH", help="Default: KUBECONFIG, ~/.kube/config."
)
@click.option("--namespace", default="", help="Default: that of the context.")
@click.option(
    "--image", default="", help="The image of jobs that name none; has Python 3.9 and bash."
)
def add(name: str, context: str, kubeconfig: str, namespace: str, image: str) -> None:
    """Add a context as a cluster."""
    known = read_clusters(_home())
    if NAME.fullmatch(name) is None:
        remedy = "use a-z, 0-9 and - , at most 63 of them"
        raise StellwerkError.of("kubernetes/name", f"`{name[:80]}` is no cluster's name", remedy)
    if any(one.name == name for one in known):
        message = f"there is a Kubernetes cluster `{name}` already"
        raise StellwerkError.of("kubernetes/name", message, f"`stw kubernetes rm {name}` first")
    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    file = str(Path(path).expanduser().absolute())
    one = KubernetesCluster(name, context, file, namespace, image)
    write_clusters(_home(), (*known, one))
    narrate(f"added {name}; {RESTART}")


@command.command("rm", epilog="Example: stw kubernetes rm gpus")
@click.argument("name")
def remove(name: str) -> None:
    """Take a cluster away. What runs there goes on, and its Jobs stay."""
    known = read_clusters(_home())
    left = tuple(one for one in known if one.name != name)
    if left == known:
        there = ", ".join(one.name for one in known) or "none"
        message = f"there is no Kubernetes cluster `{name[:80]}`"
        raise StellwerkError.of("find/cluster", message, f"there is: {there}")
    write_clusters(_home(), left)
    narrate(f"removed {name}; {RESTART}")


@command.command(
    "rbac", epilog="Example: stw kubernetes rbac --user stellwerk | kubectl apply -f -"
)
@click.option("--namespace", default="default", help="Where the jobs are to run.")
@click.option("--user", default="stellwerk", help="The user of the kubeconfig.")
def rbac(namespace: str, user: str) -> None:
    """Print the rights that the server needs on a cluster, and no more."""
    items = rbac_of(namespace, user)
    click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))


def _home() -> Path:
    return Path(load().home)
