"""`stw forward`: ports of a job that runs, on this machine."""

from collections.abc import Sequence

import click

from stellwerk.cli.forwarding import HERE, PortPair, answers, listen, serve
from stellwerk.cli.output import narrate
from stellwerk.cli.session import complete_live, connect


@click.command(
    "forward",
    epilog="""\b
    Example: stw forward notebook 8888
             stw forward train 6006:6006 9000:8265
    """,
)
@click.argument("name", shell_complete=complete_live)
@click.argument("ports", nargs=-1, required=True, type=PortPair(), metavar="[LOCAL:]PORT...")
@click.option("--run", type=click.IntRange(1), metavar="N", help="Of this run, not the newest.")
@click.option("--rank", type=click.IntRange(0), default=0, metavar="R", help="Where this rank is.")
def command(name: str, ports: Sequence[tuple[int, int]], run: int | None, rank: int) -> int:
    """Reach ports of a job that runs, as if it ran here.

    Connections to 127.0.0.1 on this machine go through the server to the machine of the job, to a
    port at which it listens there. They end with Ctrl-C, and with the job; a new run of the same
    job is reached as soon as it runs. Everybody on this machine can use them meanwhile.
    """
    client = connect()
    workload = client.get(name)
    # Says at once what is wrong with the name or the run; that nothing listens yet isn't.
    if not answers(client, name, ports[0][1], run, rank):
        narrate(f"nothing listens at port {ports[0][1]} yet; each connection tries again")
    listening = [listen(here, there) for here, there in ports]
    for door, (_, there) in zip(listening, ports, strict=True):
        narrate(f"http://{HERE}:{door.getsockname()[1]} -> {workload.name}:{there}")
    narrate("Ctrl-C ends it")
    try:
        serve(listening, [there for _, there in ports], name, run, rank)
    except KeyboardInterrupt:
        return 0
    finally:
        for door in listening:
            door.close()
    return 0
