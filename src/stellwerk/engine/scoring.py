"""Asks score sources for the scores of clusters: bounded in time and size, and never by surprise.

A source is asked in a process or thread of its own. HTTP goes only to the host that was written;
a redirect to another is refused. What isn't understood is said once and leaves the last scores to
their validity.
"""

import asyncio
import io
import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from stellwerk.core.inventory.merge import Source
from stellwerk.core.model.cluster import Cluster, ScoreObject
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.scoring import HIGHEST, LOWEST, ScoreSource
from stellwerk.engine.clock import Clock

log = logging.getLogger("stellwerk.engine")

ANSWER_BYTES = 4 << 20
READ_BYTES = 1 << 16
MOST_CLUSTERS = 100_000

Scores = dict[str, dict[str, int]]
"""By cluster and name."""


class NoScoresError(Exception):
    """Why a source gave no scores, in words."""


class _Asked(NamedTuple):
    source: ScoreSource
    task: asyncio.Task[None]


class ScoreKeeper:
    """Keeps asking all sources. ``tell`` takes what one says, under its name."""

    def __init__(self, clock: Clock, tell: Callable[[str, Source | None], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._asked: dict[str, _Asked] = {}
        self._first: dict[str, asyncio.Event] = {}

    def keep(self, sources: Iterable[ScoreSource]) -> None:
        """Asks these from now on, and no others."""
        wanted = {one.name: one for one in sources}
        for name, asked in list(self._asked.items()):
            if wanted.get(name) != asked.source:
                asked.task.cancel()
                del self._asked[name]
                if name not in wanted:
                    self._tell(name, None)
        for name, one in wanted.items():
            if name not in self._asked:
                self._first[name] = asyncio.Event()
                task = asyncio.create_task(self._ask_again(one), name=f"scores of {name}")
                self._asked[name] = _Asked(one, task)

    async def first_answers(self, timeout_s: float) -> None:
        """Waits until each source has answered once, well or not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for event in list(self._first.values()):
                    await event.wait()

    def close(self) -> None:
        """Asks no more."""
        for asked in self._asked.values():
            asked.task.cancel()
        self._asked.clear()

    async def _ask_again(self, one: ScoreSource) -> None:
        said, told_ms = "", 0
        last: Scores = {}
        while True:
            try:
                scores = await ask(one)
            except NoScoresError as error:
                if str(error) != said:
                    log.warning("score source %s gives no scores: %s", one.name, error)
                said = str(error)
            else:
                said, now_ms = "", self._clock.now_ms()
                if scores != last or now_ms - told_ms > one.valid_ms // 2:
                    self._tell(one.name, source_of(one, scores, now_ms))
                    last, told_ms = scores, now_ms
            self._first[one.name].set()
            await asyncio.sleep(one.every_ms / 1000)


def source_of(one: ScoreSource, scores: Scores, now_ms: int) -> Source:
    """What was told, as a source of facts."""
    clusters = tuple(
        Cluster(
            name=name,
            driver="",
            nodes=(),
            scores={
                one.name: ScoreObject(values, now_ms + one.valid_ms, now_ms, f"source {one.name}")
            },
        )
        for name, values in sorted(scores.items())
    )
    return Source(f"source {one.name}", "told", Fleet(clusters=clusters), now_ms, whole=False)


async def ask(one: ScoreSource) -> Scores:
    """Asks once; raises NoScoresError with the reason if there is no good answer."""
    answer = await (_run(one) if one.command else _fetch(one))
    return read_scores(one, answer)


async def _run(one: ScoreSource) -> bytes:
    """What a command prints. The pipe isn't the process's own: to wait for that would be to wait
    for all who hold its pipe too, and for what nobody reads.
    """
    reading, writing = os.pipe()
    with io.FileIO(reading) as pipe:
        try:
            process = await asyncio.create_subprocess_exec(
                *one.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise NoScoresError(f"`{one.command[0]}` can't be run: {error.strerror}") from error
        finally:
            os.close(writing)
        try:
            async with asyncio.timeout(one.timeout_ms / 1000):
                answer = await _read(pipe)
                code = await process.wait() if len(answer) <= ANSWER_BYTES else 0
        except TimeoutError:
            raise NoScoresError(f"no answer within {one.timeout_ms / 1000:g} s") from None
        finally:
            if process.returncode is None:
                _end_session(process.pid)
                await process.wait()
    if code:
        raise NoScoresError(f"`{one.command[0]}` ended with exit code {code}")
    return answer


async def _read(pipe: io.RawIOBase) -> bytes:
    """All that comes, or a little more than an answer may have."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        answer = bytearray()
        while len(answer) <= ANSWER_BYTES and (more := await reader.read(READ_BYTES)):
            answer += more
        return bytes(answer)
    finally:
        transport.close()


def _end_session(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


async def _fetch(one: ScoreSource) -> bytes:
    url = one.url
    if one.query:
        url = f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': one.query})}"
    timeout_s = one.timeout_ms / 1000
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.to_thread(_get, url, timeout_s)
    except TimeoutError:
        raise NoScoresError(f"no answer within {timeout_s:g} s") from None


def _get(url: str, timeout_s: float) -> bytes:
    import urllib.error
    import urllib.request

    host = urlsplit(url).netloc

    class SameHost(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any,
                             newurl: str) -> Any:  # fmt: skip
            if urlsplit(newurl).netloc != host:
                fp.close()
                raise NoScoresError(f"it sends to another host: {urlsplit(newurl).netloc}")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), SameHost)
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            return bytes(answer.read(ANSWER_BYTES + 1))
    except urllib.error.HTTPError as error:
        error.close()
        raise NoScoresError(f"it answers {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise NoScoresError(f"it can't be asked: {error}") from error


def read_scores(one: ScoreSource, answer: bytes) -> Scores:
    """Scores of an answer: `{"CLUSTER": 5}`, `{"CLUSTER": {"NAME": 5}}`, a list of objects with
    `cluster`, `value` and perhaps `name`, or what Prometheus gives.
    """
    if len(answer) > ANSWER_BYTES:
        raise NoScoresError(f"it answers more than {ANSWER_BYTES >> 20} MiB")
    try:
        value: Any = msgspec.json.decode(answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoScoresError(f"its answer is no JSON ({error})") from error
    if one.query:
        value = _of_prometheus(one, value)
    for key in one.at.split(".") if one.at else ():
        value = value.get(key) if isinstance(value, Mapping) else None
    found: Scores = {}
    for cluster, name, number in _numbers(one, value):
        found.setdefault(cluster, {})[name] = _clamped(one, number)
    if not found:
        raise NoScoresError("there is no score in its answer")
    return found


def _of_prometheus(one: ScoreSource, value: Any) -> list[dict[str, Any]]:
    data = value.get("data") if isinstance(value, Mapping) else None
    results = data.get("result") if isinstance(data, Mapping) else None
    if not isinstance(results, list):
        raise NoScoresError("its answer isn't one of Prometheus")
    found = []
    for each in results:
        if not isinstance(each, Mapping):
            continue
        metric, sample = each.get("metric"), each.get("value")
        if isinstance(metric, Mapping) and isinstance(sample, list) and len(sample) == 2:
            found.append({"cluster": metric.get(one.label), "value": sample[1]})
    return found


def _numbers(one: ScoreSource, value: Any) -> Iterable[tuple[str, str, float]]:
    if isinstance(value, Mapping):
        for cluster, told in list(value.items())[:MOST_CLUSTERS]:
            named = told if isinstance(told, Mapping) else {one.score: told}
            for name, number in named.items():
                found = _number(number)
                if found is not None:
                    yield str(cluster), str(name), found
    elif isinstance(value, list):
        for each in value[:MOST_CLUSTERS]:
            if not isinstance(each, Mapping) or not isinstance(each.get("cluster"), str):
                continue
            found = _number(each.get("value"))
            if found is not None:
                yield each["cluster"], str(each.get("name", one.score)), found


def _number(value: object) -> float | None:
    """A finite number, also one that is written as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None


def _clamped(one: ScoreSource, number: float) -> int:
    if one.scale is not None:
        low, high = one.scale
        number = LOWEST + (number - low) / (high - low) * (HIGHEST - LOWEST)
    return round(min(max(number, LOWEST), HIGHEST))
