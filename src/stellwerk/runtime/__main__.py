"""The runtime's own command line: be an agent or a hand, or print the facts of this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Optional

from . import VERSION

if TYPE_CHECKING:
    import argparse


def main(argv: Optional[list[str]] = None) -> int:
    """Run one command; the exit status."""
    given = sys.argv[1:] if argv is None else argv
    if len(given) == 3 and given[0] in {"hand", "relay"} and given[1] == "--home":
        return _at_the_end(given[0], given[2])  # somebody waits for it, so nothing is read first
    return _chosen(given)


def _at_the_end(mode: str, home: str) -> int:
    """Be what stands at the end of a caller's connection."""
    if mode == "hand":
        from .hand import serve as be_hand

        return be_hand(home)
    from .reach import socket_of
    from .relay import relay

    return relay(socket_of(f"{home}/runtime"))


def _chosen(argv: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="stellwerk-runtime", description=__doc__)
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="be the agent of a root")
    serve.add_argument("--root", required=True, help="directory of the agent, on a local disk")
    serve.add_argument("--socket", required=True, help="where to listen; its directory is private")
    serve.add_argument("--idle-exit-s", type=float, help="end after so long without work")
    probe = commands.add_parser("probe", help="print the facts of this machine as JSON")
    probe.add_argument("--root", default="/", help="directory whose disk is meant")
    hand = commands.add_parser("hand", help="work here for a caller that is elsewhere")
    hand.add_argument("--home", required=True, help="directory of everything, on a local disk")
    relay = commands.add_parser("relay", help="join standard input and output to the agent")
    relay.add_argument("--home", required=True, help="as of the hand")
    _add_joining(commands)
    chosen = parser.parse_args(argv)
    if chosen.command in {"hand", "relay"}:
        return _at_the_end(chosen.command, chosen.home)
    if chosen.command == "join":
        return _join(chosen)
    if chosen.command == "channel":
        from .join import channel

        return channel(chosen.home, chosen.number)
    if chosen.command == "probe":
        import json

        from .probe import probe as look

        print(json.dumps(look(chosen.root), indent=2))
        return 0
    from .agent import serve as be_agent

    return be_agent(chosen.root, chosen.socket, chosen.idle_exit_s)


def _add_joining(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    join = commands.add_parser("join", help="dial out to a server that can't dial in")
    join.add_argument("url", nargs="?", default="", help="https://HOST:PORT of the server")
    join.add_argument("--token", default="", help="as `stw cluster token` gave it")
    join.add_argument("--token-file", help="a file with it (- = standard input)")
    join.add_argument("--name", default="", help="its name as a node, instead of its host name")
    join.add_argument("--folder", default="", help="where everything lies here")
    join.add_argument("--ca", default="", help="certificates that vouch for the server")
    join.add_argument("--home", default="", help="join again as before: the folder of that time")
    channel = commands.add_parser("channel", help="give the server one more stream")
    channel.add_argument("--home", required=True, help="as of the hand")
    channel.add_argument("--number", required=True, help="which one")


def _join(chosen: argparse.Namespace) -> int:
    from .join import join

    token = chosen.token or os.environ.pop("STELLWERK_JOIN_TOKEN", "")
    if chosen.token_file == "-":  # noqa: S105 - no token, but standard input
        token = sys.stdin.readline().strip()
    elif chosen.token_file:
        with open(chosen.token_file, encoding="ascii") as file:
            token = file.read().strip()
    return join(
        chosen.url,
        token,
        name=chosen.name,
        folder=chosen.folder,
        ca=chosen.ca,
        home=os.path.abspath(chosen.home) if chosen.home else "",
    )


if __name__ == "__main__":
    sys.exit(main())
