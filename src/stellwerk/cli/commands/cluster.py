"""`stw cluster`: machines over SSH as places to run on: add them, look at them, remove them.

`drain` and `resume` are for clusters of any kind.
"""

import sys

import click

from stellwerk.cli.commands import cluster_course, cluster_import, cluster_token
from stellwerk.cli.errors import FAILED, StopError
from stellwerk.cli.output import Output, list_options, narrate, one_options, write_list, write_one
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import connect
from stellwerk.client.machines import HostLook, Looked, SshCluster
from stellwerk.core.model.errors import Problem, StellwerkError

UNKNOWN_KEY = "ssh/host-key-unknown"
COLUMNS: list[Column[SshCluster]] = [
    Column("name", "NAME", lambda one: one.name),
    Column("hosts", "HOSTS", lambda one: " ".join(one.hosts)),
]


@click.group(
    "cluster",
    invoke_without_command=True,
    epilog="Example: stw cluster add k017 --host you@pc01 --host you@pc02",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Machines over SSH as one cluster: a big server, or a room of PCs.

    They need sshd, a shell and Python 3.9; nothing is installed. Without a subcommand all are
    listed; `stw clusters` shows what is free. `drain` and `resume` work for any cluster, also for
    this machine.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(ls)


@command.command("ls", epilog="Example: stw cluster ls -o json")
@list_options
def ls(output: Output = Output()) -> None:  # noqa: B008 - a named tuple of plain values
    """List the clusters over SSH, with their hosts."""
    write_list(
        list(connect().ssh_clusters()),
        COLUMNS,
        output,
        name=lambda one: one.name,
        empty="there are no clusters over SSH",
        then="next: stw clusters, or: stw cluster add NAME --host user@host",
    )


@command.command("add", epilog="Example: stw cluster add big --host you@server.example")
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    required=True,
    metavar="USER@HOST[:PORT]",
    help="A machine, or a name from ~/.ssh/config; repeat it for a room. Behind it may stand where"
    " it is: 'pc01 switch=sw1', and whether people at it come first: 'pc01 console=notice'.",
)
@click.option("--python", default="", metavar="PATH", help="The Python to use there.")
@click.option("--folder", default="", metavar="PATH", help="Where everything lies there.")
@click.option(
    "--accept-host-key",
    "accepted",
    multiple=True,
    metavar="FINGERPRINT",
    help="Trust a host key that isn't known yet: SHA256:…, as the machine itself tells it;"
    " repeat it for a room.",
)
@one_options
def add(
    name: str,
    hosts: tuple[str, ...],
    python: str,
    folder: str,
    accepted: tuple[str, ...],
    output: Output,
) -> None:
    """Add machines over SSH as a cluster; each is connected to, and looked at."""
    client = connect()
    keys = list(accepted)
    while True:
        looked = client.add_ssh_cluster(
            name, hosts, python=python, folder=folder, accept_host_keys=keys
        )
        unknown = [look for look in looked.hosts if look.code == UNKNOWN_KEY]
        if looked.added or not unknown or not _may_ask():
            break
        keys += [look.fingerprint for look in unknown if _is_trusted(look)]
        if any(look.fingerprint not in keys for look in unknown):
            break
    if not looked.added:
        raise StellwerkError(_problems(looked))
    _tell(looked, output)
    if output.for_people:
        narrate(f"added {name}   next: stw clusters, or: stw run --infra ssh/{name} task.yaml")


@command.command("probe", epilog="Example: stw cluster probe k017")
@click.argument("name")
@one_options
def probe(name: str, output: Output) -> None:
    """Look at all machines of a cluster now. Exit code 1 if one can't be worked with."""
    looked = connect().probe_ssh_cluster(name)
    _tell(looked, output)
    if any(look.code for look in looked.hosts):
        raise StopError(FAILED)


for _one in (
    cluster_import.command,
    cluster_token.command,
    cluster_course.drain,
    cluster_course.resume,
    cluster_course.rm,
):
    command.add_command(_one)


def _may_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _is_trusted(look: HostLook) -> bool:
    question = f"{look.host} shows the host key {look.fingerprint}. Is that its own?"
    return click.confirm(question, default=False, err=True)


def _problems(looked: Looked) -> list[Problem]:
    return [
        Problem(look.code, look.message, look.help, path=look.host)
        for look in looked.hosts
        if look.code
    ]


def _tell(looked: Looked, output: Output) -> None:
    write_one(looked, [_line(look) for look in looked.hosts], output, name=looked.name)


def _line(look: HostLook) -> str:
    if look.code:
        return f"{look.node}: [{look.code}] {look.message}" + (
            f"   -> {look.help}" if look.help else ""
        )
    notes = f"; {look.notes}" if look.notes else ""
    return f"{look.node}: ready, Python {look.python}, in {look.folder}{notes}"
