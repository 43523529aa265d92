"""Does what comes before the ranks of a run, in order: the shell, the files, the view, the setup.

Nothing here blocks: what may take long is done by a child, and the wrapper says which one ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Optional

from . import checkpoints, copying, errands, gpu_files, images, setups
from .files import JSONObject, Places, RunFiles
from .images import Image
from .launch import APPEND, Inherited, SpawnError, spawn
from .loop import Loop
from .ranks import Processes
from .setups import BUSY, KEPT, SetupGate
from .snapshot import Shell, capture_in_child, load, snapshot_key
from .spec import Mount, Spec
from .view import SKY_WORKDIR, Bind, View, ViewError, at_home, inside_work

_SETUP_LOOK_MS = 100
_OF_THE_MACHINE = ("/proc", "/sys", "/dev", "/etc/resolv.conf", "/etc/hosts")


class Order(NamedTuple):
    """What the agent hands over to a wrapper."""

    places: Places
    spec: Spec
    secrets: Mapping[str, str]
    secret_files: Mapping[str, str]
    environment: Mapping[str, str]
    inherited: Inherited
    control: int
    """The descriptor on which orders come."""


class Hands(NamedTuple):
    """What a preparation needs of the wrapper."""

    loop: Loop
    changed: Callable[[], None]
    may_go_on: Callable[[], bool]
    start_ranks: Callable[[Processes], None]
    stop_before: Callable[[str], None]
    """The run ends before its ranks, for this cause."""
    fail: Callable[[str, Optional[Exception]], None]
    """The run can't be started; the message says why."""


class Preparation:
    """From the first look at the shell to the moment when the ranks may start."""

    def __init__(self, order: Order, files: RunFiles, hands: Hands) -> None:
        self._order = order
        self._spec = order.spec
        self._files = files
        self._hands = hands
        self.detail, self.setup_state = "", "none"
        self.shell: JSONObject = {"source": "none", "why_plain": None}
        self.setup_code: Optional[int] = None
        self.setup_pid: Optional[int] = None
        self.commands: Optional[Processes] = None
        self._gate = SetupGate(order.places.setups, order.spec.setup_key)
        self._view: Optional[View] = None
        self._children: dict[int, Callable[[int], None]] = {}
        self._trouble = files.path("errand")
        self._remembered = files.path("before.json")
        self._answer = files.path("image.json")
        self._image: Optional[Image] = None
        self._home = order.spec.env.get("HOME") or order.environment.get("HOME", "/")

    def child_ended(self, pid: int, status: int) -> bool:
        """A child was reaped: was it one of these?"""
        then = self._children.pop(pid, None)
        if then is not None:
            then(status)
        return then is not None

    def stop(self) -> None:
        """Nothing more is prepared: let others have the setup."""
        self._gate.leave()

    def clean_up(self) -> None:
        """Nothing of the job is left: let go of its view, and of a copy that was cut off."""
        if self._view is not None:
            self._view.leave()
        if self._spec.resume_from and self.commands is not None:
            checkpoints.forget_unfinished(self.commands.checkpoint_dir)

    # -- the shell -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Find the shell's environment; the rest follows from there."""
        environment = self._order.environment
        if self._spec.image is not None:
            self._say(f"getting the image {self._spec.image}")
            places, log = self._order.places, self._files.setup_log
            get = partial(images.fetch, self._spec.image, places.images, log, self._answer)
            self._send(get, self._after_image)
        elif self._spec.inherit_env:
            self._have_shell(Shell({}, None, None), "given")
        elif self._spec.shell == "interactive":
            self._have_shell(Shell(dict(environment), None, None), "interactive")
        else:
            key = snapshot_key(environment)
            found = load(self._order.places, key, environment)
            if found is not None:
                self._have_shell(found, "snapshot")
                return
            self._say("reading the shell's start-up files")
            try:
                pid = capture_in_child(self._order.places, key, environment)
            except OSError as error:
                why = f"the shell's start-up files can't be read: {error.strerror}"
                self._have_shell(Shell(dict(environment), None, why), "plain")
            else:
                self._children[pid] = self._after_capture

    def _after_image(self, status: int) -> None:
        self._image = images.read_answer(self._answer) if status == 0 else None
        if not self._hands.may_go_on():
            self._hands.stop_before("not_started")
        elif self._image is None:
            self._fail_by("", status)
        else:
            home = self._image.home
            self._home = self._spec.env.get("HOME") or home
            env = {"HOME": home, "USER": "root", "LOGNAME": "root", **self._image.env}
            self._have_shell(Shell(env, None, None), "image")

    def _after_capture(self, _status: int) -> None:
        environment = self._order.environment
        found = load(self._order.places, snapshot_key(environment), environment)
        if found is None:
            found = Shell(dict(environment), None, "the shell's start-up files could not be read")
        self._have_shell(found, "snapshot")

    def _have_shell(self, shell: Shell, source: str) -> None:
        is_plain = shell.why_plain is not None
        self.shell = {"source": "plain" if is_plain else source, "why_plain": shell.why_plain}
        self.commands = Processes(self._spec, self._files, self._order.secrets, shell)
        try:
            self.commands.prepare(self._order.inherited.umask)
        except OSError as error:
            self._hands.fail(f"`{error.filename}` can't be made: {error.strerror}", error)
            return
        self._fetch(self.commands)

    # -- files and the view ----------------------------------------------------------------------

    def _fetch(self, commands: Processes) -> None:
        """Give the run its own copies, and links inside of its work directory."""
        copies = [(i, mount) for i, mount in enumerate(self._spec.mounts) if mount.copy]
        try:
            for mount in self._spec.mounts:
                inside = inside_work(mount.target)
                if inside and mount.source and not mount.copy:
                    _link(mount.source, os.path.join(commands.cwd, inside))
        except OSError as error:
            self._hands.fail(f"`{mount.target}` can't be made: {error.strerror}", error)
            return
        if copies or self._spec.resume_from:
            what = ["checkpoints"] if self._spec.resume_from else []
            self._say("copying " + ", ".join(what + [f"`{m.target}`" for _, m in copies]))
            self._send(partial(self._copy, commands, copies), self._after_fetch)
        else:
            self._enter_view(commands)

    def _copy(self, commands: Processes, copies: list[tuple[int, Mount]]) -> None:
        if self._spec.resume_from:
            checkpoints.resume(self._spec.resume_from, commands.checkpoint_dir)
        for index, mount in copies:
            inside = inside_work(mount.target)
            target = os.path.join(commands.cwd, inside) if inside else self._own_copy(index)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            copying.copy_tree(str(mount.source), target)

    def _own_copy(self, index: int) -> str:
        return os.path.join(self._files.path("copies"), str(index))

    def _after_fetch(self, status: int) -> None:
        if not self._hands.may_go_on() or self.commands is None:
            self._hands.stop_before("not_started")
        elif status != 0:
            self._fail_by("the task's files can't be copied: ", status)
        else:
            self._enter_view(self.commands)

    def _enter_view(self, commands: Processes) -> None:
        """Show the mounts where the job looks for them; what is only wished for may be missing."""
        wanted = [
            (index, mount)
            for index, mount in enumerate(self._spec.mounts)
            if mount.secret is not None or inside_work(mount.target) is None
        ]
        keeps_setup = self._gate.has_key and self._spec.setup is not None
        if self._image is not None:
            self._enter_image(commands, self._image, wanted)
            return
        if wanted or self._spec.sky_workdir or keeps_setup:
            places = self._order.places
            view = View(self._files.path("view"), places.placeholders, places.root)
            place = at_home(SKY_WORKDIR, self._home)
            try:
                view.enter()
                self._view = view
                view.bind_all([Bind(place, commands.cwd), *self._binds(view, wanted)])
                commands.cwd = place
            except ViewError as error:
                if wanted:
                    self._hands.fail(str(error), error)
                    return
                if keeps_setup:
                    self._note(f"setup isn't kept: {error}")
                self._gate.give_up()
        elif not keeps_setup:
            self._gate.give_up()
        self._set_up(commands)

    def _enter_image(
        self, commands: Processes, image: Image, wanted: list[tuple[int, Mount]]
    ) -> None:
        """Show the job the image's files, what it needs of the machine, and its mounts in them."""
        self._gate.give_up()
        places = self._order.places
        view = View(self._files.path("view"), places.placeholders, places.root)
        place = at_home(SKY_WORKDIR, self._home)
        own = (self._files.directory, commands.checkpoint_dir, commands.output_dir)
        given = [Bind(target, path) for target, path in self._driver_files(commands).items()]
        try:
            view.enter_image(image.files, (*_OF_THE_MACHINE, *own))
            self._view = view
            view.bind_all([*given, Bind(place, commands.cwd), *self._binds(view, wanted)])
        except ViewError as error:
            self._hands.fail(str(error), error)
            return
        commands.cwd, commands.top = place, view.top
        self._set_up(commands)

    def _driver_files(self, commands: Processes) -> dict[str, str]:
        """What a run that has GPUs must see of their driver."""
        if not any(rank.env.get("CUDA_VISIBLE_DEVICES") for rank in self._spec.ranks):
            return {}
        commands.add_paths(gpu_files.PLACE)
        return gpu_files.driver_files()

    def _binds(self, view: View, wanted: list[tuple[int, Mount]]) -> list[Bind]:
        values = {
            mount.secret: self._order.secret_files[mount.secret]
            for _, mount in wanted
            if mount.secret is not None
        }
        folder = ""
        try:
            if values:
                folder = view.keep_secrets(values)
        except OSError as error:
            raise ViewError(f"secrets can't be kept in memory: {error.strerror}") from error
        binds = []
        for index, mount in wanted:
            source = self._own_copy(index) if mount.copy else str(mount.source)
            if mount.secret is not None:
                source = os.path.join(folder, mount.secret)
            binds.append(Bind(at_home(mount.target, self._home), source, mount.read_only))
        return binds

    # -- the setup -------------------------------------------------------------------------------

    def _set_up(self, commands: Processes) -> None:
        """Run the setup, take its files over, or wait for another run's same one."""
        if not self._hands.may_go_on():
            self._hands.stop_before("not_started")
            return
        if self._spec.setup is None:
            self._hands.start_ranks(commands)
            return
        entered = self._gate.enter()
        if entered == BUSY:
            if not self.detail.startswith("waiting"):
                self._say("waiting for the same setup of another run")
            self._hands.loop.after("setup", _SETUP_LOOK_MS, lambda: self._set_up(commands))
        elif entered == KEPT:
            self._say("taking over what the same setup has made")
            take_over = partial(setups.take_over, self._gate.files, commands.cwd)
            self._send(take_over, self._after_take_over)
        elif self._gate.has_key:
            self._send(
                partial(setups.remember, commands.cwd, self._remembered), self._after_remembering
            )
        else:
            self._spawn_setup(commands)

    def _after_take_over(self, status: int) -> None:
        self._gate.leave()
        if status == 0 and self.commands is not None and self._hands.may_go_on():
            self.setup_state = "cached"
            self._note("setup: what it makes was kept from an earlier run")
            self._hands.start_ranks(self.commands)
        else:
            self._without_keeping(status)

    def _after_remembering(self, status: int) -> None:
        if status == 0 and self.commands is not None and self._hands.may_go_on():
            self._spawn_setup(self.commands)
        else:
            self._without_keeping(status)

    def _without_keeping(self, status: int) -> None:
        """Run the setup as if it had no key."""
        if status != 0:
            self._note(f"setup runs: {errands.why_failed(self._trouble)}")
        self._gate.give_up()
        if self.commands is not None:
            self._set_up(self.commands)

    def _spawn_setup(self, commands: Processes) -> None:
        self.setup_state = "running"
        self._say("")
        try:
            self.setup_pid = spawn(commands.setup(), self._order.inherited)
        except (SpawnError, OSError) as error:
            self._hands.fail(str(error), error)
        else:
            self._children[self.setup_pid] = self._setup_ended
            self._hands.changed()

    def _setup_ended(self, status: int) -> None:
        code = status if status >= 0 else 128 - status
        self.setup_pid, self.setup_code = None, code
        self.setup_state = "ok" if code == 0 else "failed"
        if code != 0:
            self._hands.stop_before("setup")
        elif not self._hands.may_go_on() or self.commands is None:
            self._hands.stop_before("not_started")
        elif self._gate.has_key:
            self._say("keeping what the setup has made")
            keep = partial(setups.keep, self.commands.cwd, self._remembered, self._gate.files)
            self._send(keep, self._after_keeping)
        else:
            self._hands.start_ranks(self.commands)

    def _after_keeping(self, status: int) -> None:
        if not self._hands.may_go_on() or self.commands is None:
            self._hands.stop_before("not_started")
            return
        if status != 0:
            self._note(f"setup isn't kept: {errands.why_failed(self._trouble)}")
            self._gate.leave()
        else:
            try:
                self._gate.succeeded(self._spec.run)
            except OSError as error:
                self._note(f"setup isn't kept: {error.strerror}")
                self._gate.leave()
        self._hands.start_ranks(self.commands)

    # -- how -------------------------------------------------------------------------------------

    def _send(self, work: Callable[[], None], then: Callable[[int], None]) -> None:
        try:
            self._children[errands.send(work, self._trouble)] = then
        except OSError as error:
            self._hands.fail(f"no process could be started: {error.strerror}", error)

    def _fail_by(self, what: str, status: int) -> None:
        """A child could not do its work, and the run can't do without."""
        message = what + errands.why_failed(self._trouble)
        of_machine = errands.is_of_machine_status(status)
        self._hands.fail(message, SpawnError(message, of_machine=of_machine))

    def _say(self, detail: str) -> None:
        if self.detail != detail:
            self.detail = detail
            self._hands.changed()

    def _note(self, line: str) -> None:
        """A line for people among what the setup prints."""
        try:
            place = os.open(self._files.setup_log, APPEND, 0o600)
            with open(place, "a", encoding="utf-8") as log:
                log.write(line + "\n")
        except OSError as error:
            self.detail = f"the setup's log can't be written: {error.strerror}"


def _link(source: str, place: str) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.symlink(source, place)
