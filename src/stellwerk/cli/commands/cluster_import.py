"""`stw cluster import`: adds what SkyPilot's pools or an SSH configuration name as clusters."""

from collections.abc import Sequence

import click
from msgspec import Struct

from stellwerk.cli.errors import FAILED, StopError, usage
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.machines import HostLook, Looked
from stellwerk.core.describe.node_pools import Pool, PoolHost, cluster_name, read_node_pools
from stellwerk.core.model.errors import StellwerkError

POOLS = "~/.sky/ssh_node_pools.yaml"
OFF = ("ssh/timeout", "ssh/no-route", "ssh/refused", "ssh/connection-lost")


class Import(Struct):
    """A cluster that is to be added, and what became of that."""

    name: str
    hosts: list[str]
    state: str = ""
    left_out: list[str] = []


COLUMNS: list[Column[Import]] = [
    Column("name", "NAME", lambda one: one.name),
    Column("hosts", "HOSTS", lambda one: " ".join(one.hosts)),
    Column("state", "STATE", lambda one: one.state),
    Column("left_out", "LEFT OUT", lambda one: " ".join(one.left_out), grows=True),
]


@click.command(
    "import",
    epilog="Example: stw cluster import   stw cluster import --ssh-config 'k017-*' --dry-run",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--ssh-config",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Hosts that ~/.ssh/config names, as one cluster; NAME=PATTERN gives it a name.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be added.")
@click.option(
    "--accept-host-key",
    "accepted",
    multiple=True,
    metavar="FINGERPRINT",
    help="Trust a host key that isn't known yet: SHA256:…",
)
@list_options
def command(
    file: str | None,
    patterns: tuple[str, ...],
    dry_run: bool,
    accepted: tuple[str, ...],
    output: Output,
) -> None:
    """Add clusters from SkyPilot's ssh_node_pools.yaml, or from ~/.ssh/config.

    It says what it found, then adds each. Hosts that can't be worked with are named and left out,
    those that are merely off join when they are back. Exit code 1 if a cluster couldn't be added.
    """
    pools = [_of_pattern(one) for one in patterns]
    if file is not None or not patterns:
        pools += _of_file(file or POOLS)
    client = connect()
    known = {one.name for one in client.clusters()}
    imports = [Import(one.name, [str(host) for host in one.hosts]) for one in pools]
    for one, pool in zip(imports, pools, strict=True):
        if one.name in known:
            one.state = "is there already"
        elif dry_run:
            one.state = "would be added"
        else:
            narrate(f"adding {one.name}: {', '.join(one.hosts)}")
            _add(client, one, pool, accepted)
    then = "next: stw clusters"
    write_list(
        imports, COLUMNS, output, name=lambda one: one.name, empty="nothing there", then=then
    )
    if any(one.state == "can't be added" for one in imports):
        raise StopError(FAILED)


def _of_file(path: str) -> list[Pool]:
    from os.path import expanduser

    try:
        with open(expanduser(path), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        help = "name the file, or a pattern: --ssh-config 'k017-*'"
        raise usage("usage/file", f"{path} can't be read: {error.strerror}", help) from error
    found = read_node_pools(text, file=path)
    for notice in found.notices:
        Narrator().insist(f"{notice.message}" + (f"   -> {notice.help}" if notice.help else ""))
    return list(found.pools)


def _of_pattern(written: str) -> Pool:
    from stellwerk.drivers.ssh.patterns import hosts_like

    name, mark, pattern = written.partition("=")
    if not mark:
        name, pattern = cluster_name(written.replace("*", "")), written
    try:
        hosts = hosts_like(pattern)
    except OSError as error:
        message = f"~/.ssh/config can't be read: {error.strerror}"
        raise usage("usage/file", message, "name a file of pools") from error
    if not hosts:
        message = f"~/.ssh/config names no host like `{pattern}`"
        raise usage("usage/hosts", message, "a `Host` line must name it without `*`")
    return Pool(cluster_name(name), tuple(PoolHost(host) for host in hosts))


def _add(client: Client, one: Import, pool: Pool, accepted: Sequence[str]) -> None:
    """Adds a cluster, at the second try with those hosts alone that can be worked with."""
    try:
        looked = _try(client, pool, pool.hosts, accepted)
        bad = [look for look in looked.hosts if look.code and look.code not in OFF]
        some = any(not look.code for look in looked.hosts)
        if not looked.added and bad and some:
            names = {look.host for look in bad}
            left = tuple(host for host in pool.hosts if str(host) not in names)
            one.left_out = [str(host) for host in pool.hosts if str(host) in names]
            _tell(bad)
            looked = _try(client, pool, left, accepted)
    except StellwerkError as error:
        for problem in error.problems:
            Narrator().insist(str(problem))
        one.state = "can't be added"
        return
    _tell([look for look in looked.hosts if look.code])
    one.state = "added" if looked.added else "can't be added"


def _try(client: Client, pool: Pool, hosts: Sequence[PoolHost], accepted: Sequence[str]) -> Looked:
    keys = {str(host): host.identity_file for host in hosts if host.identity_file}
    names = [str(host) for host in hosts]
    return client.add_ssh_cluster(pool.name, names, accept_host_keys=accepted, identity_files=keys)


def _tell(looks: Sequence[HostLook]) -> None:
    for look in looks:
        help = f"   -> {look.help}" if look.help else ""
        Narrator().insist(f"{look.host}: [{look.code}] {look.message}{help}")
