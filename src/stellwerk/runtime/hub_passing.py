"""Passes content of a hub cache from one machine straight to another that reaches it.

The control plane makes a certificate for one copy: the machine that has the content shows it, the
other one takes no other, and says a word that only both were told. Nobody else is spoken with, and
the port is open for as long as the copy takes.

| request | asks with | gets |
|---|---|---|
| `hub_lend` | `name`, `certificate`, `key`, `word` | `port`, `addresses` |
| `hub_unlend` | `word` | |
| `hub_take` | `name`, `blob`, `size`, `offset`, `certificate`, `word`, `port`, `addresses` | |
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator

from .files import JSONObject, open_file
from .hand_files import Answer, FileTrouble, Here, Operation
from .hub_hand import PART, Repo, blob_of, locked, repo_of
from .network import own_addresses

NO_WAY = "no_way_there"
CONNECT_S = 2.0
SILENCE_S = 60.0
LENT_S = 24 * 3600.0
MOST_ADDRESSES = 8
_BLOCK = 1 << 20
_ZEROS = bytes(_BLOCK)
_LONGEST_REQUEST = 512
_LENT: dict[str, socket.socket] = {}


def lend(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Open a port at which content of a repository is given to who says the word."""
    repo, word = repo_of(here, head), str(head["word"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:  # only files can be loaded; 0700
        path = os.path.join(folder, "pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{head['key']}\n{head['certificate']}\n")
        context.load_cert_chain(path)
    listening = socket.create_server(("", 0))
    listening.settimeout(LENT_S)
    _LENT[word] = listening
    threading.Thread(
        target=_give_to_all, args=(listening, context, repo, word), daemon=True
    ).start()
    return {"port": listening.getsockname()[1], "addresses": own_addresses()}, b""


def unlend(_here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Close it."""
    listening = _LENT.pop(str(head.get("word")), None)
    if listening is not None:
        with contextlib.suppress(OSError):  # so that the one who waits at it wakes up
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
    return {}, b""


def _give_to_all(listening: socket.socket, context: ssl.SSLContext, repo: Repo, word: str) -> None:
    while True:
        try:
            plain, _ = listening.accept()
        except OSError:
            listening.close()
            return
        threading.Thread(target=_give, args=(plain, context, repo, word), daemon=True).start()


def _give(plain: socket.socket, context: ssl.SSLContext, repo: Repo, word: str) -> None:
    plain.settimeout(SILENCE_S)
    try:
        with plain, context.wrap_socket(plain, server_side=True) as one:
            request = b""
            while not request.endswith(b"\n") and len(request) < _LONGEST_REQUEST:
                block = one.recv(_LONGEST_REQUEST)
                if not block:
                    return
                request += block
            said, _, rest = request.decode("ascii", "replace").strip().partition(" ")
            blob, _, offset = rest.partition(" ")
            if not hmac.compare_digest(said, word):
                return
            with open_file(os.path.realpath(repo.at("blobs", blob_of(blob)))) as file:
                file.seek(int(offset))
                while block := file.read(_BLOCK):
                    one.sendall(block)
    except (OSError, ValueError, FileTrouble):
        return  # the other side sees that something is missing


def take(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Fetch the rest of content from a machine that lends it."""
    repo, blob = locked(here, head), blob_of(head.get("blob"))
    offset, size = int(head["offset"]), int(head["size"])
    path = repo.at("blobs", blob + PART)
    with _connected(head) as one:
        one.sendall(f"{head['word']} {blob} {offset}\n".encode("ascii"))
        with open(path, "r+b" if offset else "wb") as file:
            file.seek(offset)
            view = memoryview(bytearray(_BLOCK))
            while offset < size:
                count = _fill(one, view[: min(_BLOCK, size - offset)])
                if not count:
                    raise FileTrouble("cut", f"{repo.name} was cut off {size - offset} bytes early")
                if view[:count] == _ZEROS[:count]:  # holes in files stay holes
                    file.seek(count, os.SEEK_CUR)
                else:
                    file.write(view[:count])
                offset += count
            file.truncate(size)
    return {}, b""


def _fill(one: ssl.SSLSocket, view: memoryview) -> int:
    """As much as there is room for; less only at the end."""
    count = 0
    while count < len(view):
        got = one.recv_into(view[count:])
        if not got:
            break
        count += got
    return count


@contextlib.contextmanager
def _connected(head: JSONObject) -> Iterator[ssl.SSLSocket]:
    """A connection to the machine that has the certificate, by one of its addresses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # it is known by its certificate alone
    context.load_verify_locations(cadata=str(head["certificate"]))
    mine = own_addresses()
    addresses = [str(one) for one in head.get("addresses") or () if one not in mine]
    for address in addresses[:MOST_ADDRESSES]:
        try:
            plain = socket.create_connection((address, int(head["port"])), CONNECT_S)
        except OSError:
            continue
        plain.settimeout(SILENCE_S)
        try:
            one = context.wrap_socket(plain)
        except OSError:
            plain.close()
            continue  # somebody else has this address in another network
        with one:
            yield one
        return
    raise FileTrouble(NO_WAY, f"none of {', '.join(addresses) or 'no address'} answers from here")


OPERATIONS: dict[str, Operation] = {"hub_lend": lend, "hub_unlend": unlend, "hub_take": take}
