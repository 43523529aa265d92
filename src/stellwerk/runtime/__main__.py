"""The runtime's own command line: be an agent or a hand, or print the facts of this machine."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Optional

from . import VERSION


def main(argv: Optional[list[str]] = None) -> int:
    """Run one command; the exit status."""
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
    chosen = parser.parse_args(argv)
    if chosen.command == "hand":
        from .hand import serve as be_hand

        return be_hand(chosen.home)
    if chosen.command == "relay":
        from .reach import socket_of
        from .relay import relay as join

        return join(socket_of(f"{chosen.home}/runtime"))
    if chosen.command == "probe":
        from .probe import probe as look

        print(json.dumps(look(chosen.root), indent=2))
        return 0
    from .agent import serve as be_agent

    return be_agent(chosen.root, chosen.socket, chosen.idle_exit_s)


if __name__ == "__main__":
    sys.exit(main())
