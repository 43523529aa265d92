"""States which options of sbatch there are, how they are written, and what becomes of each here."""

from __future__ import annotations

from typing import Literal, NamedTuple

Takes = Literal["value", "maybe", "nothing"]
Fate = Literal["used", "ignored", "refused"]


class Option(NamedTuple):
    """An option: whether a value follows, what becomes of it, and why."""

    name: str
    takes: Takes
    fate: Fate
    reason: str = ""


SHORT = {
    "A": "account", "a": "array", "b": "begin", "B": "extra-node-info", "C": "constraint",
    "c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile",
    "G": "gpus", "H": "hold", "i": "input", "J": "job-name", "k": "no-kill", "L": "licenses",
    "M": "clusters", "m": "distribution", "N": "nodes", "n": "ntasks", "O": "overcommit",
    "o": "output", "p": "partition", "Q": "quiet", "q": "qos", "S": "core-spec",
    "s": "oversubscribe", "t": "time", "v": "verbose", "W": "wait", "w": "nodelist",
    "x": "exclude",
}  # fmt: skip

_USED: dict[str, Takes] = dict.fromkeys(
    ("job-name", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu",
     "mem-per-gpu", "gres", "gpus", "gpus-per-node", "gpus-per-task", "time", "chdir", "signal",
     "export", "constraint", "tmp", "output", "error", "array", "dependency"), "value",
)  # fmt: skip
_USED |= {"requeue": "nothing", "no-requeue": "nothing"}

_OF_ONE_CLUSTER = "it belongs to one Slurm cluster"
_BINDING = "how a program is bound to a machine's parts is left to the machine"
_IGNORED: dict[str, tuple[Takes, str]] = {
    "partition": ("value", f"{_OF_ONE_CLUSTER}; or use `--infra slurm/CLUSTER/PARTITION`"),
    "account": ("value", _OF_ONE_CLUSTER),
    "qos": ("value", _OF_ONE_CLUSTER),
    "reservation": ("value", _OF_ONE_CLUSTER),
    "clusters": ("value", f"{_OF_ONE_CLUSTER}; or use `--infra slurm/CLUSTER`"),
    "wckey": ("value", _OF_ONE_CLUSTER),
    "exclude": ("value", "it names nodes of one Slurm cluster"),
    "nice": ("maybe", "use `--priority`"),
    "mail-type": ("value", "no mail is sent; follow with `stw logs -f`"),
    "mail-user": ("value", "no mail is sent; follow with `stw logs -f`"),
    "open-mode": ("value", "the output is kept whole, run by run"),
    "comment": ("value", "use a label: `-l KEY=VALUE`"),
    "time-min": ("value", "the time limit is the one of `--time`"),
    **dict.fromkeys(
        ("cpu-bind", "mem-bind", "gpu-bind", "distribution", "hint", "threads-per-core",
         "cores-per-socket", "sockets-per-node", "core-spec", "thread-spec", "cpu-freq",
         "gpu-freq", "gres-flags", "extra-node-info", "ntasks-per-core", "ntasks-per-socket"),
        ("value", _BINDING),
    ),
    **dict.fromkeys(
        ("contiguous", "overcommit", "spread-job", "use-min-nodes", "parsable", "quiet", "verbose",
         "wait", "test-only", "reboot", "ignore-pbs", "oversubscribe"),
        ("nothing", "it has no meaning here"),
    ),
    **dict.fromkeys(
        ("no-kill", "get-user-env", "propagate", "wait-all-nodes", "kill-on-invalid-dep",
         "profile", "acctg-freq", "delay-boot", "switches", "power", "prefer", "mcs-label",
         "extra", "stepmgr", "uid", "gid"),
        ("maybe", "it has no meaning here"),
    ),
}  # fmt: skip

_BY_TASK_FILE = "use a task file with `image_id: docker:IMAGE`"
_REFUSED: dict[str, tuple[Takes, str]] = {
    "nodelist": ("value", "it names nodes of one Slurm cluster; use `stw run --infra`"),
    "nodefile": ("value", "it names nodes of one Slurm cluster; use `stw run --infra`"),
    "exclusive": ("maybe", "a node can't be had alone yet; ask for all its CPUs and accelerators"),
    "begin": ("value", "a start time can't be set yet; use `stw run --hold` and `stw release`"),
    "deadline": ("value", "a deadline can't be set yet; remove it, or set `--time`"),
    "hold": ("nothing", "use `stw run --hold`"),
    "licenses": ("value", "licences aren't counted; remove it, and see to it that there is one"),
    "input": ("value", "a job has no input; read the file in the script"),
    "wrap": ("value", "use `stw run -- COMMAND`"),
    "container": ("value", f"a bundle can't be run; {_BY_TASK_FILE}"),
    "container-image": ("value", _BY_TASK_FILE),
    "container-mounts": ("value", "use a task file with `image_id` and `file_mounts`"),
    "cluster-constraint": ("value", "it names features of Slurm clusters; use `stw run --infra`"),
    "batch": ("value", "it names features of Slurm nodes; use `stw run --infra`"),
    "bb": ("value", "there are no burst buffers; copy the data at the beginning of the script"),
    "bbf": ("value", "there are no burst buffers; copy the data at the beginning of the script"),
    "network": ("value", "networks can't be asked for; remove it"),
    "mincpus": ("value", "use `--cpus-per-task`"),
}

OPTIONS: dict[str, Option] = {
    **{name: Option(name, takes, "used") for name, takes in _USED.items()},
    **{name: Option(name, takes, "ignored", why) for name, (takes, why) in _IGNORED.items()},
    **{name: Option(name, takes, "refused", why) for name, (takes, why) in _REFUSED.items()},
}
