"""The library of URLs that Kubernetes adds to CEL: `url`, `isURL` and the parts of one.

A URL is a map of its parts. As in the reference it is an absolute one or begins with `/`, and has
no fragment.
"""

import re
from typing import Any

Map = dict[str, Any]

LONGEST_URL = 4096
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(?:.*@)?(\[[^\[\] ]*\]|[^:\[\] ]*)(?::([0-9]*))?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f]")
_TO_ESCAPE = re.compile(rb"[^A-Za-z0-9$&+,/:;=@!'()*._~%\[\]-]")


def url(text: str) -> Map:
    """Reads a URL."""
    if len(text) > LONGEST_URL:
        raise ValueError(f"the URL has {len(text)} characters, at most {LONGEST_URL} may be")
    found = _SCHEME.fullmatch(text)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", text)
    if _FORBIDDEN.search(text) or not (scheme or rest.startswith("/")):
        raise ValueError(f"`{text[:60]}` is no URL: it is neither absolute nor begins with /")
    rest, _, query = rest.partition("?")
    host = port = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        parts = _AUTHORITY.fullmatch(authority)
        if parts is None:
            raise ValueError(f"`{text[:60]}` is no URL: its host or port is wrong")
        host, port = parts[1], parts[2] or ""
    elif not rest.startswith("/"):
        rest = ""
    if _BAD_ESCAPE.search(host + rest):
        raise ValueError(f"`{text[:60]}` is no URL: a % in it escapes nothing")
    return {"url": text, "scheme": scheme, "host": host, "port": port, "path": rest, "query": query}


def is_url(text: str) -> bool:
    """Whether a text is a URL."""
    try:
        url(text)
    except ValueError:
        return False
    return True


def part(one: Map, name: str) -> str:
    """A part of a URL as it was written."""
    if "url" not in one:
        raise ValueError("it isn't a URL")
    return str(one[name])


def host_of(one: Map) -> str:
    """The host with its port, if one is written; addresses of IPv6 in brackets."""
    port = part(one, "port")
    return f"{part(one, 'host')}:{port}" if port else part(one, "host")


def hostname_of(one: Map) -> str:
    """The host alone, without brackets."""
    return part(one, "host").strip("[]")


def escaped_path(one: Map) -> str:
    """The path, with what must be escaped in it escaped."""
    path = part(one, "path").encode()
    return _TO_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], path).decode()


def query_of(one: Map) -> dict[str, list[str]]:
    """The parameters after `?`, each with all of its values; what isn't one is left out."""
    found: dict[str, list[str]] = {}
    for pair in part(one, "query").split("&"):
        name, _, value = pair.partition("=")
        if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
            found.setdefault(_decoded(name), []).append(_decoded(value))
    return found


def _decoded(text: str) -> str:
    plain = text.replace("+", " ").encode()
    return _ESCAPE.sub(lambda one: bytes([int(one[1], 16)]), plain).decode(errors="replace")
