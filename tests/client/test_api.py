"""The client asks what it should, understands what it gets, and says what it can't have."""

import threading
from pathlib import Path
from typing import Any

import pytest

from stellwerk.client import ApiError, Client, Submission, UnreachableError
from stellwerk.core.model.errors import SpecError, StellwerkError
from tests.client.fake_server import Asked, FakeServer, Says, refuses, row, show

SUBMITTED = {"id": "w-1", "name": "digits", "phase": "Pending", "notices": []}


def test_a_text_is_submitted_with_a_key_of_its_own(server: FakeServer, client: Client) -> None:
    """Two submissions of the same text are two workloads: each has another key."""
    server.on("POST", "/v1/workloads", SUBMITTED)
    assert client.submit(text="run: echo hi", env={"A": "1"}).name == "digits"
    client.submit(text="run: echo hi")
    first, second = server.bodies("POST", "/v1/workloads")
    assert first["text"] == "run: echo hi"
    assert first["env"] == {"A": "1"}
    assert len(first["key"]) == 24
    assert first["key"] != second["key"]


def test_what_it_does_not_know_is_refused(server: FakeServer, client: Client) -> None:
    """A misspelt or missing setting must not be left out in silence."""
    server.on("POST", "/v1/workloads", SUBMITTED)
    with pytest.raises(TypeError, match="cpus, time_limit: not known here; known are text, argv"):
        client.submit(text="run: x", cpus=4, time_limit="2h")  # type: ignore[call-arg]
    assert server.bodies("POST", "/v1/workloads") == []


def test_a_phase_of_what_has_ended_finds_it(server: FakeServer, client: Client) -> None:
    """Without `all`, which would only ever give an empty list."""
    server.on("GET", "/v1/workloads", {"items": [], "seq": 1, "next": None})
    for phase, every in (("failed", "1"), (["Running", "Failed"], "1"), ("Running", "0")):
        client.list(phase=phase)
        assert server.asked[-1].query["all"] == every


def test_every_error_is_at_hand() -> None:
    """Where the documents say that it is."""
    import stellwerk.client as at_hand

    for name in ("StellwerkError", "SpecError", "ApiError", "UnreachableError", "ExecError"):
        assert issubclass(getattr(at_hand, name), at_hand.StellwerkError)
        assert name in at_hand.__all__


def test_a_given_key_is_kept(server: FakeServer, client: Client) -> None:
    """Whoever repeats a request with its key means the same request."""
    server.on("POST", "/v1/workloads", SUBMITTED)
    client.submit(text="run: x", key="mine")
    assert server.bodies("POST", "/v1/workloads")[0]["key"] == "mine"


def test_a_work_directory_is_sent_before_the_task(
    server: FakeServer, client: Client, tmp_path: Path
) -> None:
    """What the server lacks is put, the manifest last, and the submission names the manifest."""
    (tmp_path / "train.py").write_text("print(1)")
    server.on("POST", "/v1/blobs/missing", lambda asked: {"missing": asked.json()["hashes"]})
    server.on("PUT", "/v1/blobs/[0-9a-f]{64}", Says(b"", 204))
    server.on("POST", "/v1/workloads", SUBMITTED)
    client.submit(text=f"workdir: {tmp_path}\nrun: python train.py")
    puts = [asked for asked in server.asked if asked.method == "PUT"]
    assert puts[0].body == b"print(1)"
    manifest = puts[-1]
    assert manifest.json()["files"][0]["path"] == "train.py"
    submitted = server.bodies("POST", "/v1/workloads")[0]
    assert manifest.path.endswith(submitted["snapshot"])
    assert server.asked[-1].path == "/v1/workloads"


def test_nothing_is_sent_that_the_server_has(
    server: FakeServer, client: Client, tmp_path: Path
) -> None:
    """Who has the manifest has all of it: one question, no content."""
    (tmp_path / "a").write_text("a")
    server.on("POST", "/v1/blobs/missing", {"missing": []})
    server.on("POST", "/v1/workloads", SUBMITTED)
    client.submit(text=f"workdir: {tmp_path}\nrun: ls")
    assert [asked.method for asked in server.asked] == ["POST", "POST"]


def test_a_bad_text_is_refused_before_anything_is_sent(server: FakeServer, client: Client) -> None:
    """Every mistake of a file is told, with its place, and the server isn't bothered."""
    with pytest.raises(SpecError) as caught:
        client.submit(text="run: x\nresorces: {}\nnum_nodes: none\n")
    assert [(p.line, p.column) for p in caught.value.problems] == [(2, 1), (3, 12)]
    assert server.asked == []


def test_a_command_runs_in_place_with_the_callers_environment(
    server: FakeServer, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`argv` travels as words, with folder and environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINE", "yes")
    server.on("POST", "/v1/workloads", SUBMITTED)
    client.submit(argv=["python", "-c", "print('a b')"])
    body = server.bodies("POST", "/v1/workloads")[0]
    assert body["argv"] == ["python", "-c", "print('a b')"]
    assert (body["kind"], body["in_place"], body["cwd"]) == ("argv", True, str(tmp_path))
    assert body["caller_env"]["MINE"] == "yes"


@pytest.mark.parametrize("given", [{}, {"text": "run: x", "argv": ["y"]}])
def test_exactly_one_thing_is_submitted(client: Client, given: dict[str, str]) -> None:
    """Nothing and two things are refused alike."""
    with pytest.raises(SpecError, match="submit/what"):
        client.submit(**given)  # type: ignore[arg-type]


def test_refusals_carry_all_problems_and_an_exit_code(server: FakeServer, client: Client) -> None:
    """A program sees what a person would be told."""
    server.on("GET", "/v1/workloads/nope", refuses("find/workload", "no such workload", 404, 3))
    with pytest.raises(ApiError) as caught:
        client.get("nope")
    assert caught.value.exit_code == 3
    assert caught.value.status == 404
    assert str(caught.value) == "error[find/workload]  no such workload"


def test_an_answer_that_is_no_problem_report_is_quoted(server: FakeServer, client: Client) -> None:
    """Whatever answers is shown, not guessed at."""
    server.on("GET", "/v1/clusters", Says(b"<html>busy</html>", 502))
    with pytest.raises(ApiError, match="502: <html>busy"):
        client.clusters()


def test_an_answer_that_is_not_understood_names_the_versions(
    server: FakeServer, client: Client
) -> None:
    """A field of another kind is an error in words."""
    server.on("GET", "/v1/server", {"pid": "many"})
    with pytest.raises(StellwerkError, match="different versions"):
        client.server_status()


def test_fields_of_a_newer_server_are_left_alone(server: FakeServer, client: Client) -> None:
    """Fields are only added, so an older client reads on."""
    server.on("GET", "/v1/workloads/digits", {**show("digits"), "aura": "blue"})
    assert client.get("digits").phase == "Running"


def test_lists_are_read_to_their_end(server: FakeServer, client: Client) -> None:
    """Pages are asked for until there is no next one."""
    pages = {"": (["a", "b"], "b-place"), "b-place": (["c"], None)}

    def page(asked):  # type: ignore[no-untyped-def]
        names, following = pages[asked.query.get("after", "")]
        return {"items": [row(name) for name in names], "seq": 1, "next": following}

    server.on("GET", "/v1/workloads", page)
    assert [one.name for one in client.list(all=True, labels={"team": "x"})] == ["a", "b", "c"]
    assert [asked.query["all"] for asked in server.asked] == ["1", "1"]
    assert server.asked[0].query["label"] == "team=x"


@pytest.mark.parametrize("name", ["ä b", "w?x#y", "a%2Fexplain"])
def test_a_name_stays_one_part_of_the_path(server: FakeServer, client: Client, name: str) -> None:
    """Whatever is in a name, it can't become another address."""
    server.on("GET", "/v1/workloads/[^/]+", show("x"))
    client.get(name)
    assert server.asked[0].path.count("/") == 3


@pytest.mark.parametrize("name", ["", ".", "..", "a/explain", "a/../b", "../../server/stop"])
def test_what_can_be_no_name_is_not_found(server: FakeServer, client: Client, name: str) -> None:
    """It isn't the list of all, nor another address: a server reads `%2F` as a slash."""
    with pytest.raises(ApiError) as caught:
        client.cancel(name)
    assert caught.value.exit_code == 3
    assert server.asked == []


def test_waiting_ends_with_the_workload(server: FakeServer, client: Client) -> None:
    """A long poll that comes back early is asked again."""
    phases = iter(["Pending", "Running", "Succeeded"])
    server.on("GET", "/v1/workloads/digits/wait", lambda _: row("digits", next(phases)))
    assert client.wait("digits").phase == "Succeeded"
    assert len(server.asked) == 3


def test_waiting_has_a_limit(server: FakeServer, client: Client) -> None:
    """The limit is passed on to the server, and kept here."""
    server.on("GET", "/v1/workloads/digits/wait", row("digits", "Running"))
    with pytest.raises(TimeoutError, match="digits is Running"):
        client.wait("digits", timeout_s=0)
    assert server.asked[0].query["timeout_ms"] == "0"


def test_a_batch_of_copies_is_one_request(server: FakeServer, client: Client) -> None:
    """`count` copies travel as one item."""
    server.on("POST", "/v1/workloads/batch", {"ids": ["1", "2"], "names": ["a", "a-2"]})
    assert client.submit_many(Submission(text="run: x"), 2).names == ["a", "a-2"]
    body = server.bodies("POST", "/v1/workloads/batch")[0]
    assert body["count"] == 2
    assert body["item"] == {"text": "run: x"}
    assert len(body["key"]) == 24


def test_copies_never_share_a_key(server: FakeServer, client: Client) -> None:
    """Else they would be one workload: the key belongs to the call, or to each item."""
    server.on("POST", "/v1/workloads/batch", {"ids": [], "names": []})
    client.submit_many(Submission(text="run: x", key="mine"), 2)
    client.submit_many([Submission(text="a"), Submission(text="b")])
    client.submit_many([Submission(text="a", key="k1"), Submission(text="b", key="k2")])
    one, two, three = server.bodies("POST", "/v1/workloads/batch")
    assert (one["key"], one["item"].get("key")) == ("mine", None)
    assert (len(two["key"]), [item.get("key") for item in two["items"]]) == (24, [None, None])
    assert ("key" in three, [item["key"] for item in three["items"]]) == (False, ["k1", "k2"])


def test_verbs_say_what_they_do(server: FakeServer, client: Client) -> None:
    """Each verb is a POST to its own address."""
    server.on(
        "POST", "/v1/workloads/digits/[a-z]+", {"id": "w-1", "name": "digits", "phase": "Held"}
    )
    client.cancel("digits", now=True)
    client.hold("digits")
    client.release("digits")
    client.set_priority("digits", 5)
    client.declare_lost("digits")
    assert [asked.path.rsplit("/", 1)[1] for asked in server.asked] == [
        "cancel",
        "hold",
        "release",
        "priority",
        "lost",
    ]
    assert server.asked[0].json() == {"now": True}
    assert server.asked[3].json() == {"priority": 5}


def test_a_connection_that_the_server_let_go_is_opened_again(
    server: FakeServer, client: Client
) -> None:
    """An idle connection may be closed at any time; nobody notices."""
    server.on("GET", "/v1/clusters", {"items": []})
    client.server_status()
    kept = client.transport._kept
    assert kept is not None
    assert kept.sock is not None
    kept.sock.shutdown(2)
    assert client.clusters() == ()


def test_a_fleet_is_applied_once_more_if_the_connection_is_cut(
    server: FakeServer, client: Client
) -> None:
    """Under the same key, and no third time."""

    def apply(_: Asked) -> Any:
        if len(server.bodies("POST", "/v1/apply")) in {1, 3, 4}:
            return Says([b"{"], cut=True)
        return {"name": "fleet.yaml"}

    server.on("POST", "/v1/apply", apply)
    assert client.apply_fleet("kind: x").name == "fleet.yaml"
    keys = [one.headers["Idempotency-Key"] for one in server.asked if one.method == "POST"]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    client.close()
    with pytest.raises(UnreachableError):
        client.apply_fleet("kind: x")
    assert len(server.bodies("POST", "/v1/apply")) == 4


def test_threads_may_share_a_client(server: FakeServer, client: Client) -> None:
    """Requests of several threads don't get each other's answers."""
    server.on("GET", "/v1/workloads/[a-z]+", lambda asked: show(asked.path.rsplit("/", 1)[1]))
    found: list[bool] = []

    def ask(name: str) -> None:
        found.extend(client.get(name).name == name for _ in range(20))

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("ada", "bob", "eve")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 60


def test_no_server_is_said_in_words() -> None:
    """A client that may not start one says how to."""
    with pytest.raises(UnreachableError, match="stw server start") as caught:
        Client(start=False).server_status()
    assert caught.value.exit_code == 6


def test_a_default_socket_of_somebody_else_is_refused(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that another user made could be a trap for what we send."""
    monkeypatch.setattr("os.getuid", lambda: 54_321)
    with pytest.raises(UnreachableError, match="belongs to user"):
        Client().server_status()
    assert server.asked == []


def test_a_path_too_long_for_a_socket_is_said_in_words(tmp_path: Path) -> None:
    """The kernel's limit comes with what to do about it."""
    with pytest.raises(UnreachableError, match="STELLWERK_SOCKET"):
        Client(str(tmp_path / ("x" * 120))).server_status()
