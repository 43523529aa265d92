"""A server that speaks as much of the hub's API as its library asks for, with data of its own.

Each request is noted. A repository's files may be bytes, or sparse files on the disk; small ones
are named as git does, large ones by sha256, as on the hub. A file's hash may be told instead of
computed, for sets that would take minutes to read.
"""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit


class HubFile(NamedTuple):
    """Content of a file: bytes, or a path to them, and the name that it has on the hub."""

    content: bytes | Path
    size: int
    sha256: str
    git: str


def a_file(content: bytes) -> HubFile:
    """A file of these bytes."""
    return HubFile(
        content,
        len(content),
        hashlib.sha256(content).hexdigest(),
        hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
    )


class Hub(NamedTuple):
    """A hub that runs: its address, what it has, and what it was asked for."""

    url: str
    repos: dict[str, dict[str, dict[str, HubFile]]]
    asked: list[str]

    def add(self, repo: str, files: Mapping[str, HubFile]) -> str:
        """A commit of `datasets/org/name` or `models/org/name`, the newest; gives its id."""
        listed = sorted((path, file.sha256, file.size) for path, file in files.items())
        commit = hashlib.sha1(json.dumps([repo, listed]).encode()).hexdigest()
        self.repos.setdefault(repo, {})[commit] = dict(files)
        return commit


@contextmanager
def a_hub(address: str = "127.0.0.1") -> Iterator[Hub]:
    """Runs one."""
    server = ThreadingHTTPServer((address, 0), _Handler)
    hub = Hub(f"http://{address}:{server.server_address[1]}", {}, [])
    server.hub = hub  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        found: Hub = self.server.hub  # type: ignore[attr-defined]
        return found

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.hub.asked.append(f"{self.command} /{path}")
        parts = path.split("/")
        if parts[0] == "api" and len(parts) >= 6:
            self._tell(f"{parts[1]}/{parts[2]}/{parts[3]}", parts[4], parts[5])
        elif "resolve" in parts:
            at = parts.index("resolve")
            kind = parts[0] if parts[0] == "datasets" else "models"
            repo = f"{kind}/{'/'.join(parts[at - 2 : at])}"
            self._give(repo, parts[at + 1], "/".join(parts[at + 2 :]))
        else:
            self._json({"error": "not found"}, 404)

    def _commit(self, repo: str, revision: str) -> str:
        commits = self.hub.repos.get(repo, {})
        return revision if revision in commits else next(reversed(commits), "")

    def _tell(self, repo: str, what: str, revision: str) -> None:
        commit = self._commit(repo, revision)
        if not commit:
            self._json({"error": "Repository not found"}, 404)
            return
        files = self.hub.repos[repo][commit]
        if what == "tree":
            self._json([
                {"type": "file", "path": path, "size": file.size, "oid": file.git,
                 "lfs": {"oid": file.sha256, "size": file.size, "pointerSize": 134}}
                for path, file in files.items()
            ])  # fmt: skip
            return
        name = repo.partition("/")[2]
        told = [{"rfilename": path} for path in files]
        self._json({"_id": "0", "id": name, "sha": commit, "private": False, "gated": False,
                    "disabled": False, "downloads": 0, "likes": 0, "tags": [],
                    "siblings": told})  # fmt: skip

    def _give(self, repo: str, revision: str, path: str) -> None:
        commit = self._commit(repo, revision)
        file = self.hub.repos.get(repo, {}).get(commit, {}).get(path)
        if file is None:
            self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        start = 0
        if wanted := self.headers.get("Range"):
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{file.sha256}"')
        self.send_header("X-Linked-Etag", f'"{file.sha256}"')
        self.send_header("X-Linked-Size", str(file.size))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(file.size - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(file.content, bytes):
            self.wfile.write(file.content[start:])
            return
        with file.content.open("rb") as source:
            source.seek(start)
            while block := source.read(1 << 20):
                self.wfile.write(block)

    def _json(self, value: Any, status: int = 200, more: Mapping[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, said in (more or {}).items():
            self.send_header(name, said)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
