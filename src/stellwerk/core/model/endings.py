"""The part of the catalogue of reasons that says why something is over."""

from stellwerk.core.model.reasons import Entry

AGAIN = "`stw rerun NAME` starts it anew, with `--resume` from its last checkpoint"

IDLE = "idle"
"""Nobody used it: its end is no failure."""

ENDED = {
    "succeeded": Entry(
        "ended", "you", "it ended with exit code 0", "`stw logs NAME` shows its output"
    ),
    "cancelled": Entry("ended", "you", "cancelled by {actor}", AGAIN),
    "exit_code": Entry(
        "ended",
        "you",
        "the command ended[ with exit code {exit_code}]",
        "`stw logs NAME` shows what it printed last",
    ),
    "uncaught_error": Entry(
        "ended",
        "you",
        "the program stopped with {line}",
        "`stw logs NAME` shows where that came from",
    ),
    "signal": Entry(
        "ended",
        "you",
        "the command was ended by signal {signal} ({signal_name})",
        "`stw logs NAME` shows what it printed last",
    ),
    "killed": Entry(
        "ended",
        "you",
        "something outside Stellwerk killed it (SIGKILL)[; it had used up to {peak_bytes}]",
        "`dmesg` on {node} tells whether it was the kernel, for want of memory: then ask for more "
        "with `memory:`",
    ),
    "killed_by_order": Entry("ended", "you", "it was killed by order", AGAIN),
    "aborted": Entry(
        "ended",
        "you",
        "it was stopped because one of its abort rules held",
        "`stw show NAME` has the metrics; correct the job, or the rule, and submit it again",
    ),
    "aborted_not_finite": Entry(
        "ended",
        "you",
        "an abort rule held: {metric} was no longer a number[ ({value})][ at step {step}]",
        "look at the values before it with `stw show NAME`; a lower learning rate, gradient "
        "clipping or another precision often help",
    ),
    "aborted_no_progress": Entry(
        "ended",
        "you",
        "an abort rule held: nothing moved for {quiet_ms}[; the last step was {step}]",
        "`stw logs NAME` shows where it hangs; if that is its usual pace, give `no-progress` more "
        "time",
    ),
    "aborted_gpu_idle": Entry(
        "ended",
        "you",
        "an abort rule held: none of its GPUs was busy for {idle_ms}",
        "check that it uses the GPU (`.to('cuda')`, a version with CUDA) and isn't waiting for "
        "data; else give `gpu-idle` more time",
    ),
    IDLE: Entry(
        "ended",
        "you",
        "nobody and nothing used it for {idle_ms}, its idle limit: no processor, no GPU, nothing "
        "typed or transferred",
        "`stw rerun NAME` starts it anew; to have it wait longer, submit it with another "
        "`--idle-limit` (0 for none)",
    ),
    "setup_failed": Entry(
        "ended",
        "you",
        "setup ended[ with exit code {exit_code}]",
        "`stw logs NAME --setup` shows why; nothing of `run` was started",
    ),
    "max_exec_time": Entry(
        "ended",
        "you",
        "all its runs together took as long as they may: {limit_ms}",
        "`stw rerun NAME --resume` goes on from its last checkpoint, with as much time again",
    ),
    "time_limit": Entry(
        "ended",
        "you",
        "it ran longer than its time limit[ of {limit_ms}]",
        "`stw rerun NAME --resume` goes on from its last checkpoint, with as much time again, or "
        "with what `--time-limit` says",
    ),
    "out_of_memory": Entry(
        "ended",
        "you",
        "it ran out of memory[, having used up to {peak_bytes}][ of {asked_bytes} asked for]",
        "ask for more with `memory:`, or use less (smaller batches, fewer workers)",
    ),
    "memory_limited": Entry(
        "ended",
        "you",
        "it was refused memory[, having used up to {peak_bytes}][ of {asked_bytes} asked for]",
        "another limit holds than what was asked for: look for `ulimit -v` in the script or its "
        "start-up files, or for a limit of a container",
    ),
    "gpu_out_of_memory": Entry(
        "ended",
        "you",
        "it ran out of GPU memory: {line}",
        "ask for a larger card, or use less (a smaller batch, shorter sequences)",
    ),
    "gpu_not_usable": Entry(
        "ended",
        "you",
        "it found no GPU that it could use: {line}",
        "ask for one with `accelerators:`; `stw gpu` shows what there is",
    ),
    "gpu_broken": Entry(
        "ended",
        "cluster owner",
        "a GPU of {node} failed: {line}",
        "take the card out of use and restart {node}; then `stw rerun NAME`",
    ),
    "missing_module": Entry(
        "ended",
        "you",
        "Python did not find the module `{module}`",
        "install it in `setup:`, or run with the Python that has it",
    ),
    "missing_library": Entry(
        "ended",
        "you",
        "the shared library `{library}` was not found",
        "install it in `setup:`, or add its folder to LD_LIBRARY_PATH",
    ),
    "missing_command": Entry(
        "ended",
        "you",
        "the shell did not find the command `{command}`",
        "install it in `setup:`, or correct its name or PATH",
    ),
    "missing_file": Entry(
        "ended",
        "you",
        "a file was not found[: `{file}`][: {line}]",
        "check its path, that the task has a `workdir:` it is in, and that .gitignore or "
        ".skyignore doesn't leave it out",
    ),
    "no_permission": Entry(
        "ended",
        "you",
        "permission was denied[ to use `{file}`][: {line}]",
        "check its owner and mode; a program that is to be started needs `chmod +x`",
    ),
    "disk_full": Entry(
        "ended",
        "cluster owner",
        "a disk of {node} is full[: {line}]",
        "make room there, then `stw rerun NAME`, with `--resume` from its last checkpoint",
    ),
    "disk_quota": Entry(
        "ended",
        "you",
        "your disk quota on {node} is used up: {line}",
        "delete what you don't need, or ask for a larger quota; then `stw rerun NAME`, with "
        "`--resume` from its last checkpoint",
    ),
    "syntax_error": Entry(
        "ended",
        "you",
        "the program has a syntax error: {line}",
        "correct it and submit it again",
    ),
    "communication": Entry(
        "ended",
        "cluster owner",
        "its processes could not talk to each other: {line}",
        "look for a rank that failed first, then at the network; NCCL_DEBUG=INFO tells more",
    ),
    "spawn_failed": Entry(
        "ended",
        "you",
        "the command could not be started[: {message}]",
        "check its spelling, PATH and the work directory, and of a script the `#!` in its first "
        "line; what isn't there is installed in `setup:` or beforehand",
    ),
    "start_refused": Entry(
        "ended",
        "cluster owner",
        "{cluster} refused to start it[: {message}]",
        "`stw doctor` looks for the cause; then `stw rerun`",
    ),
    "log_limit": Entry(
        "ended",
        "you",
        "it printed far more than a log may hold[: {message}]",
        "print less, or write to files in $STELLWERK_OUTPUT_DIR",
    ),
    "lost_too_often": Entry(
        "ended",
        "cluster owner",
        "its run was lost {times} times in a row before it got anywhere: {message}",
        "`stw doctor` looks for the cause; then `stw rerun`",
    ),
}
