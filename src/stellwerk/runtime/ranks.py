"""Turns a spec into the processes of a run: the scripts, and what each process is started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from .files import RunFiles, write_atomically
from .launch import Start
from .launchers import (
    MPI_HOSTS,
    at_another_address,
    meeting_variables,
    mpi_variables,
    shell_functions,
)
from .mpi import IN_PLACE, STAND_IN, agent_variables, link_work, open_common_place, way_variables
from .network import interface_variables
from .rendezvous import choose_port
from .scripts import (
    REAL_STDERR,
    has_own_trap,
    interactive_prologue,
    prologue,
    trap,
)
from .slurm import path_with_stand_in
from .snapshot import Shell
from .spec import Rank, Spec, is_variable_name

_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_ARCHIVE = str(getattr(globals()["__loader__"], "archive", ""))
"""The file that this runs from, in which a job finds the helper."""
_BASH = "/bin/bash" if os.path.exists("/bin/bash") else "bash"


class Processes:
    """What the setup and the ranks of one run are started with."""

    def __init__(
        self, spec: Spec, files: RunFiles, secrets: Mapping[str, str], shell: Shell
    ) -> None:
        self._spec = spec
        self._files = files
        self._secrets = secrets
        self._shell = shell
        self.cwd = spec.cwd or files.path("work")
        self.checkpoint_dir = spec.checkpoint_dir or files.path("checkpoint")
        self.output_dir = spec.output_dir or files.path("output")
        self._signals = [number for number, _ in spec.term_signals]
        self._meeting: dict[str, str] = {}
        self._guessed: dict[str, str] = {}
        self.meeting_port = ""
        self.top = ""
        """The folder that the processes take for the whole machine."""

    def prepare(self, umask: int) -> None:
        """Create the job's directories, with the user's mask, and the scripts. Raises OSError."""
        made_here = [self.checkpoint_dir, self.output_dir]
        if self._spec.cwd is None:
            made_here.append(self.cwd)
        own_umask = os.umask(umask)
        try:
            for directory in made_here:
                os.makedirs(directory, exist_ok=True)
        finally:
            os.umask(own_umask)
        script = STAND_IN if self._stands_in else self._spec.script
        for name, text in (("setup.sh", self._spec.setup), ("run.sh", script)):
            if text is not None:
                ending = "" if text.endswith("\n") else "\n"
                write_atomically(self._files.path(name), os.fsencode(text + ending))
        hosts = self._files.path("hosts")
        if self._is_mpi_over_machines:
            hosts = os.path.join(open_common_place(self._spec.run), "hosts")
            self._meeting.update(agent_variables(self._spec.env, self._spec.run))
        self._meeting.update(mpi_variables(self._spec.env, hosts))

    @property
    def _is_mpi_over_machines(self) -> bool:
        return self._spec.gang is not None and MPI_HOSTS in self._spec.env

    @property
    def _stands_in(self) -> bool:
        """Whether mpirun on another machine says what runs here."""
        gang = self._spec.gang
        return self._is_mpi_over_machines and gang is not None and gang.host > 0

    def add_paths(self, place: str) -> None:
        """Have libraries and programs looked for below a place too, after all others."""
        for name, folder in (("LD_LIBRARY_PATH", "lib"), ("PATH", "bin")):
            before = self._shell.env.get(name) or (_PLAIN_PATH if name == "PATH" else "")
            self._shell.env[name] = f"{before}:{place}/{folder}".lstrip(":")

    def choose_meeting_point(self, told: Mapping[str, str]) -> None:
        """Take the port at which the ranks meet, where nobody else has said which.

        Only beside rank 0: the others would look at the wrong machine, and are told.
        """
        env = self._spec.env
        if self._is_mpi_over_machines and not self.top:
            self.cwd = link_work(self._spec.run, self.cwd)
        if "MASTER_ADDR" not in env:
            return
        if told.get("MASTER_ADDR"):
            self._meeting.update(at_another_address(env, told["MASTER_ADDR"]))
            env = {**env, **self._meeting}
        self._guessed = interface_variables(env["MASTER_ADDR"])
        port = env.get("MASTER_PORT") or told.get("MASTER_PORT")
        if port is None and any(rank.rank == 0 for rank in self._spec.ranks):
            chosen = choose_port(self._spec.run)
            port = None if chosen is None else str(chosen)
        if port is not None:
            self.meeting_port = port
            self._meeting.update(meeting_variables(env, port))
        if self._is_mpi_over_machines:
            self._meeting.update(way_variables(self._spec.env, env["MASTER_ADDR"]))

    def setup(self) -> Start:
        """The setup: without the variables of a rank, and without GPUs chosen for it."""
        given = self._given(self._spec.setup_env)
        env = self._environment(given)
        env.pop("CUDA_VISIBLE_DEVICES", None)
        return self._bash("setup.sh", env, sorted(given), self._files.setup_log)

    def rank(self, rank: Rank) -> Start:
        """One rank of the run."""
        given = self._given({**self._meeting, **rank.env})
        env = self._environment(given)
        log = self._files.rank_log(rank.rank)
        if self._spec.argv is not None and not self._stands_in:
            return Start(self._spec.argv, env, self.cwd, log, top=self.top)
        return self._bash("run.sh", env, sorted(given), log)

    def launched(self, argv: list[str]) -> Start:
        """What the MPI of another machine has started here, beside the first rank."""
        first = self._spec.ranks[0]
        env = self._environment(self._given({**self._meeting, **first.env}))
        log = self._files.rank_log(first.rank)
        return Start(argv, env, self.cwd, log, top=self.top)

    def guest(self, number: int) -> Start:
        """Nothing yet, but where a rank is and with what: for a command run beside it."""
        [rank] = [rank for rank in self._spec.ranks if rank.rank == number]
        env = self._environment(self._given({**self._meeting, **rank.env}))
        return Start((), env, self.cwd, "", top=self.top)

    @property
    def script_has_own_trap(self) -> bool:
        """Whether the script takes a notice into its own hands by a trap of its own."""
        return has_own_trap(self._spec.script or "", self._signals)

    def _given(self, own: Mapping[str, str]) -> dict[str, str]:
        """What was asked for and what a job is promised, over whatever the shell offers."""
        return {**self._spec.env, **own, **self._secrets, **self._contract()}

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        env = {} if self._spec.inherit_env else dict(self._shell.env)
        env.setdefault("PATH", _PLAIN_PATH)
        env.setdefault("PYTHONUNBUFFERED", "1")
        for name, value in self._guessed.items():
            env.setdefault(name, value)
        env.update(given)
        env.update(path_with_stand_in(env, self._files))
        if _ARCHIVE and self._spec.image is None and not self._spec.inherit_env:
            # Last of all: what a job imports by these names of its own goes first.
            env["PYTHONPATH"] = f"{env.get('PYTHONPATH', '')}:{_ARCHIVE}".lstrip(":")
        if self._is_mpi_over_machines:
            # Both bash and mpirun call the directory so as long as that is where it leads.
            env["PWD"] = self.cwd
        return env

    def _contract(self) -> dict[str, str]:
        return {
            "STELLWERK_RUN_ID": self._spec.run,
            "STELLWERK_WORKLOAD_ID": self._spec.workload,
            "STELLWERK_STOP_FILE": self._files.stop,
            "STELLWERK_DONE_FILE": self._files.done,
            "STELLWERK_CHECKPOINT_DIR": self.checkpoint_dir,
            "STELLWERK_OUTPUT_DIR": self.output_dir,
            "STELLWERK_METRICS_FILE": self._files.metrics,
        }

    def _bash(self, script: str, env: dict[str, str], given: list[str], log: str) -> Start:
        line = trap(self._spec.put_me_back, self._signals)
        if script == "run.sh":
            line = shell_functions(env) + (IN_PLACE if self._is_mpi_over_machines else "") + line
        path = self._files.path(script)
        before = self._files.path(script.replace(".sh", ".before.sh"))
        if self._spec.shell == "interactive" and not self._spec.inherit_env:
            names = [name for name in given if is_variable_name(name)]
            write_atomically(before, os.fsencode(interactive_prologue(names, line)))
            argv = [self._bash_program, "--rcfile", before, "-i", path]
            return Start(argv, env, self.cwd, log, stderr_too=REAL_STDERR, top=self.top)
        text = prologue(self._script_to_source(), line, env.get("BASH_ENV"))
        write_atomically(before, os.fsencode(text))
        env["BASH_ENV"] = before
        return Start([self._bash_program, path], env, self.cwd, log, top=self.top)

    @property
    def _bash_program(self) -> str:
        # In an image it is looked for as the image has it, by PATH.
        return "bash" if self._spec.image is not None else _BASH

    def _script_to_source(self) -> Optional[str]:
        return None if self._spec.inherit_env else self._shell.script
