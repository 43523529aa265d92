"""Why a run failed: real last lines of real programs, and the cause that is told for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model.catalogue import CATALOGUE, render
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.recover.diagnose import SIGNAL_NAMES, diagnose

GIB = 1 << 30


def told(end: RunEnd, asked_gib: int = 0) -> Reason:
    """The cause, on node `k017` of cluster `lab`."""
    return diagnose(end, asked_memory_bytes=asked_gib * GIB, node="k017", cluster="lab")


def failed(*lines: str, code: int = 1) -> str:
    """The sentence for a program that printed these lines and failed."""
    return render(told(RunEnd(how="exited", code=code, last_lines=lines))).sentence


LINES = [
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total",
        "gpu_out_of_memory",
    ),
    ("RuntimeError: CUDA error: out of memory", "gpu_out_of_memory"),
    (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to",
        "gpu_out_of_memory",
    ),
    ("OOM when allocating tensor with shape[4096,4096]", "gpu_out_of_memory"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_broken"),
    ("RuntimeError: No CUDA GPUs are available", "gpu_not_usable"),
    (
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an",
        "gpu_not_usable",
    ),
    ("MemoryError", "out_of_memory"),
    ("MemoryError: Unable to allocate 29.8 GiB for an array", "out_of_memory"),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "out_of_memory"),
    ("OSError: [Errno 12] Cannot allocate memory", "out_of_memory"),
    ("OSError: [Errno 28] No space left on device", "disk_full"),
    ("cp: error writing 'b': No space left on device", "disk_full"),
    ("OSError: [Errno 122] Disk quota exceeded: 'x'", "disk_quota"),
    ("ModuleNotFoundError: No module named 'torch'", "missing_module"),
    ("/usr/bin/python3: No module named flask", "missing_module"),
    (
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "missing_library",
    ),
    (
        "./a: error while loading shared libraries: libmpi.so.40: cannot open shared object file:",
        "missing_library",
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/ProcessGroupNCCL.cpp:1",
        "communication",
    ),
    (
        "[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout:",
        "communication",
    ),
    ("k01:77:91 [0] NCCL WARN Call to connect returned Connection refused", "communication"),
    (
        "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:42",
        "communication",
    ),
    ("SyntaxError: invalid syntax", "syntax_error"),
    ("IndentationError: unexpected indent", "syntax_error"),
    ("bash: line 3: syntax error near unexpected token `fi'", "syntax_error"),
    ("run.sh: line 9: syntax error: unexpected end of file", "syntax_error"),
    ("bash: line 1: nvcc: command not found", "missing_command"),
    ("train.sh: line 12: torchrun: command not found", "missing_command"),
    ("sh: 1: ffmpeg: not found", "missing_command"),
    ("bash: ./run.sh: Permission denied", "no_permission"),
    ("PermissionError: [Errno 13] Permission denied: '/data/x'", "no_permission"),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'", "missing_file"),
    (
        "python: can't open file '/home/ada/train.py': [Errno 2] No such file or directory",
        "missing_file",
    ),
    ("cat: x.txt: No such file or directory", "missing_file"),
    (
        "ValueError: Expected input batch_size (32) to match target batch_size (31).",
        "uncaught_error",
    ),
    ("my.package.TrainingFailure: loss is nan", "uncaught_error"),
    ("all is well", "exit_code"),
    ("NCCL INFO NCCL_ASYNC_ERROR_HANDLING set by environment to 1", "exit_code"),
    ("k01:77:77 [0] NCCL INFO Bootstrap : Using eth0, error checking on", "exit_code"),
    ("12 errors were found", "exit_code"),
]


@pytest.mark.parametrize(("line", "code"), LINES)
def test_a_line_tells_the_cause(line: str, code: str) -> None:
    """Whatever harmless lines stand around it."""
    lines = ("Epoch 1: loss 0.3", line, "")
    reason = told(RunEnd(how="exited", code=1, last_lines=lines))
    assert reason.code == code
    assert "not recorded" not in render(reason).sentence


def test_names_are_taken_from_the_line() -> None:
    """The module, the library, the command."""
    assert failed("ModuleNotFoundError: No module named 'torch.nn'") == (
        "Python did not find the module `torch.nn`"
    )
    assert failed("bash: line 1: nvcc: command not found", code=127) == (
        "the shell did not find the command `nvcc`"
    )
    assert failed("PermissionError: [Errno 13] Permission denied: '/data/x'") == (
        "permission was denied to use `/data/x`"
    )
    assert failed("bash: ./run.sh: Permission denied", code=126) == (
        "permission was denied to use `./run.sh`"
    )
    assert failed("ImportError: libtorch.so: cannot open shared object file: No such") == (
        "the shared library `libtorch.so` was not found"
    )


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/a b.csv'", "data/a b.csv"),
        ('FileNotFoundError: [Errno 2] No such file or directory: "it\'s.csv"', "it's.csv"),
        ("python3: can't open file '/h/t.py': [Errno 2] No such file or directory", "/h/t.py"),
        ("cat: x.txt: No such file or directory", "x.txt"),
        ("ls: cannot access 'no where': No such file or directory", "no where"),
        ("cp: cannot stat \u2018a\u2019: No such file or directory", "a"),
        ("job.sh: line 3: cd: /nope: No such file or directory", "/nope"),
        (f"cat: {'d/' * 300}x: No such file or directory", "…" + "d/" * 99 + "x"),
    ],
)
def test_a_missing_file_is_named(line: str, file: str) -> None:
    """However the program says it; of a very long path the end is kept, and less is shown."""
    reason = told(RunEnd(how="exited", code=1, last_lines=(line,)))
    assert reason.params["file"] == file
    shown = render(reason).sentence
    assert shown.startswith("a file was not found: `")
    assert len(file) > 100 or shown == f"a file was not found: `{file}`"


def test_a_missing_file_that_is_not_named_is_told_by_its_line() -> None:
    """A library may have words of its own."""
    line = "FileNotFoundError: no checkpoint there"
    assert failed(line) == f"a file was not found: {line}"


def test_the_last_of_likely_signs_decides() -> None:
    """A file that was missed without harm isn't the cause of what came later."""
    harmless = "cat: notes.txt: No such file or directory"
    assert failed(harmless, "ValueError: bad shape") == (
        "the program stopped with ValueError: bad shape"
    )
    assert failed("ValueError: bad shape", harmless) == "a file was not found: `notes.txt`"


def test_a_sure_sign_wins_over_what_follows_from_it() -> None:
    """Out of memory is the cause, the broken pipe of the other worker isn't."""
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    later = "RuntimeError: DataLoader worker (pid 7) exited unexpectedly"
    assert failed(oom, later) == f"it ran out of GPU memory: {oom}"


def test_a_signal_is_no_missing_file() -> None:
    """What a program printed long before it crashed doesn't explain a crash."""
    end = RunEnd(
        how="signaled", code=139, signal=11, last_lines=("ls: x: No such file or directory",)
    )
    assert render(told(end)).sentence == "the command was ended by signal 11 (SIGSEGV)"


def test_a_crash_after_a_sure_sign_is_explained_by_it() -> None:
    """C++ ends with SIGABRT when memory is out."""
    end = RunEnd(how="signaled", code=134, signal=6, last_lines=("what():  std::bad_alloc",))
    assert told(end).code == "out_of_memory"


@pytest.mark.parametrize(
    ("peak_gib", "asked_gib", "oom_kills", "sentence"),
    [
        (15, 16, 0, "it ran out of memory, having used up to 15 GiB of 16 GiB asked for"),
        (20, 16, 0, "it ran out of memory, having used up to 20 GiB of 16 GiB asked for"),
        (3, 0, 2, "it ran out of memory, having used up to 3 GiB"),
        (0, 0, 1, "it ran out of memory"),
        (
            3,
            16,
            0,
            "something outside Stellwerk killed it (SIGKILL); it had used up to 3 GiB",
        ),
        (0, 0, 0, "something outside Stellwerk killed it (SIGKILL)"),
    ],
)
def test_a_kill_is_put_down_to_memory_only_where_that_is_known(
    peak_gib: int, asked_gib: int, oom_kills: int, sentence: str
) -> None:
    """The kernel said so, or the job had used what it asked for."""
    end = RunEnd(
        how="signaled",
        code=137,
        signal=9,
        peak_memory_bytes=peak_gib * GIB,
        oom_kills=oom_kills,
    )
    assert render(told(end, asked_gib)).sentence == sentence


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (RunEnd(how="exited", code=3), "the command ended with exit code 3"),
        (RunEnd(how="exited"), "the command ended"),
        (RunEnd(how="exited", code=143), "the command was ended by signal 15 (SIGTERM)"),
        (RunEnd(how="exited", code=200), "the command ended with exit code 200"),
        (RunEnd(how="signaled", signal=64), "the command was ended by signal 64 (signal 64)"),
        (RunEnd(how="setup_failed", code=2), "setup ended with exit code 2"),
        (RunEnd(how="time_limit", code=143), "it ran longer than its time limit"),
        (
            RunEnd(how="spawn_failed", message="rank 0: no such interpreter"),
            "the command could not be started: rank 0: no such interpreter",
        ),
        (RunEnd(how="spawn_failed"), "the command could not be started"),
        (RunEnd(how="start_refused", message="disk: full"), "lab refused to start it: disk: full"),
        (RunEnd(how="killed", code=137, signal=9), "it was killed by order"),
        (
            RunEnd(how="log_limit", message="the logs had grown to 9 bytes"),
            "it printed far more than a log may hold: the logs had grown to 9 bytes",
        ),
    ],
)
def test_an_end_without_words_is_told_as_it_is(end: RunEnd, sentence: str) -> None:
    """By what the runtime did, the signal, or the plain exit code."""
    assert render(told(end)).sentence == sentence


def test_a_setup_that_failed_for_a_known_cause_tells_the_cause() -> None:
    """`pip: command not found` says more than an exit code."""
    end = RunEnd(how="setup_failed", code=127, last_lines=("bash: line 1: pip: command not found",))
    assert told(end).code == "missing_command"


def test_what_the_disk_of_a_node_did_names_the_node() -> None:
    """For the one who can act."""
    reason = told(RunEnd(how="exited", code=1, last_lines=("x: No space left on device",)))
    assert reason.params["node"] == "k017"
    assert CATALOGUE[reason.code].who == "cluster owner"


def test_a_start_for_which_the_node_has_no_room_is_told_as_that() -> None:
    """Nothing about the command is wrong then, and nobody should look for it there."""
    message = "the task's files can't be copied: No space left on device (/home/x)"
    found = told(RunEnd(how="spawn_failed", message=message, of_machine=True))
    assert (found.code, found.params["node"]) == ("disk_full", "k017")
    assert told(RunEnd(how="spawn_failed", message=message)).code == "spawn_failed"


@given(
    st.lists(st.text(max_size=60), max_size=20),
    st.one_of(st.none(), st.integers(0, 255)),
    st.one_of(st.none(), st.sampled_from(sorted(SIGNAL_NAMES))),
    st.sampled_from(("exited", "signaled", "setup_failed", "notice", "odd")),
)
def test_any_end_has_a_cause_in_the_catalogue(
    lines: list[str], code: int | None, signal: int | None, how: str
) -> None:
    """Whatever was printed, in bounded size, with a sentence and a remedy."""
    end = RunEnd(how=how, code=code, signal=signal, last_lines=tuple(lines))
    reason = told(end, 4)
    rendered = render(reason)
    assert reason.code in CATALOGUE
    assert rendered.remedy
    assert "not recorded" not in rendered.sentence + rendered.remedy
    assert len(rendered.sentence) < 400


def test_a_very_long_line_is_cut() -> None:
    """A progress bar of a megabyte is no reason."""
    line = "CUDA out of memory " + "x" * 100_000
    assert len(failed(line)) < 300


def test_memory_refused_far_below_what_was_asked_is_another_limit() -> None:
    """Asking for more wouldn't help a job that got 185 MiB of the GiB it asked for."""
    end = RunEnd(how="exited", code=1, last_lines=("MemoryError",), peak_memory_bytes=185 << 20)
    assert told(end, asked_gib=1).code == "memory_limited"
    assert "ulimit" in render(told(end, asked_gib=1)).remedy
    assert told(end).code == "out_of_memory"
