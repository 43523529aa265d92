"""Arrays and order through the real command line, server and jobs."""

from tests.flows.person import Person


def test_an_array_from_submission_to_its_logs(colleague: Person) -> None:
    """One line in `ps`, its elements by name; what comes after it starts when it is over."""
    task = colleague.task("echo $STELLWERK_ARRAY_INDEX: $word; exit $STELLWERK_ARRAY_INDEX")
    told = colleague.stw("run", task, "-n", "arr", "--sweep", "word=a,b", "--array", "%1")
    assert "submitted arr, 2 workloads" in told.stderr
    colleague.stw("run", "-d", "-n", "after", "--after", "fail:arr", "--", "echo", "cleaned up")
    ended = colleague.stw("wait", "arr", code=1)
    assert "arr: 1 Succeeded, 1 Failed" in ended.stderr
    assert colleague.stw("logs", "arr").stdout == "[0] 0: a\n[1] 1: b\n"
    colleague.stw("wait", "after")
    assert colleague.stw("logs", "after").stdout == "cleaned up\n"
    assert "to start after fail:arr" in colleague.stw("story", "after").stdout
    listed = colleague.stw("ps", "-A", "--columns", "name,phase", "--no-headers").stdout
    assert "arr\t1 Succeeded, 1 Failed" in listed
    assert "arr-0" not in listed
    elements = colleague.stw("ps", "-A", "arr", "--columns", "name", "--no-headers").stdout
    assert elements.split() == ["arr-1", "arr-0"]
    refused = colleague.stw("show", "arr", code=3)
    assert "name one of its elements, such as `arr-" in refused.stderr
