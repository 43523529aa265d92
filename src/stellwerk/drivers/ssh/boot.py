"""The command for a machine's login shell: it finds a Python and puts the runtime there.

It is one line that every usual shell reads the same way: no quote inside of quotes, nothing that
expands. What start-up files print comes before a marker that nobody can guess. The program that it
carries runs on any Python 3, so that one that is too old can still be named.
"""

import base64
import shlex
from typing import NamedTuple

PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(15, 8, -1)))
TOO_OLD = 66

_BOOT = r"""
import errno, json, os, stat, sys, time
if sys.version_info < (3, 9):
    sys.exit(66)
mark, digest, size, key, folder, mode = sys.argv[1:7]
def say(**told):
    os.write(1, ("\n" + mark + json.dumps(told) + "\n").encode("ascii"))
def give_up(trouble, **more):
    say(trouble=trouble, **more)
    sys.exit(0)
def first_line(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
def kind_of(path):
    path = os.path.realpath(path)
    found = ("", "")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split(" ")
            point = words[4]
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(found[0]):
                found = (point, words[words.index("-") + 1])
    return found[1]
far = ("nfs", "cifs", "smb", "afs", "lustre", "beegfs", "gpfs", "ceph", "fuse.sshfs", "9p", "glust")
def no_programs_in_tmp():
    place = os.environ.get("TMPDIR") or "/tmp"
    try:
        return place if os.statvfs(place).f_flag & 8 else ""
    except OSError:
        return ""
machine = first_line("/etc/machine-id") or os.uname().nodename
state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
rest = os.path.join(machine[:12], key)
home = folder
if not home:
    tops = [os.path.join(state, "stellwerk"), "/var/tmp/stellwerk-%d" % os.getuid()]
    for top in tops:
        if not kind_of(top).startswith(far):
            home = os.path.join(top, rest)
            break
    else:
        give_up("no-local-disk", places=tops)
runtime = os.path.join(home, "runtime")
build = os.path.join(runtime, "runtime-%s.pyz" % digest[:12])
def failed(error):
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    give_up("full" if full else "folder", place=error.filename or home, why=error.strerror)
try:
    if not folder and top == tops[1]:
        try:
            os.mkdir(top, 0o700)
        except FileExistsError:
            pass
        found = os.lstat(top)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            give_up("folder", place=top, why="it belongs to another user")
        os.chmod(top, 0o700)
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    if os.stat(home).st_uid != os.getuid():
        give_up("folder", place=home, why="it belongs to another user")
    os.chmod(home, 0o700)
except OSError as error:
    failed(error)
need = not (os.path.exists(build) and os.path.getsize(build) == int(size))
say(need=need, home=home, python="%d.%d.%d" % sys.version_info[:3], executable=sys.executable,
    no_exec=bool(os.statvfs(home).f_flag & 8), tmp_no_exec=no_programs_in_tmp(),
    now_ms=int(time.time() * 1000), machine_id=machine,
    boot_id=first_line("/proc/sys/kernel/random/boot_id"))
if need:
    import hashlib
    got = b""
    while len(got) < int(size):
        block = os.read(0, int(size) - len(got))
        if not block:
            sys.exit(1)
        got += block
    if hashlib.sha256(got).hexdigest() != digest:
        give_up("damaged")
    draft = "%s.%d" % (build, os.getpid())
    try:
        with open(draft, "wb") as file:
            file.write(got)
        os.rename(draft, build)
    except OSError as error:
        try:
            os.unlink(draft)
        except OSError:
            pass
        failed(error)
    say(kept=True)
os.execv(sys.executable, [sys.executable, "-I", "-S", build, mode, "--home", home])
"""


class Boot(NamedTuple):
    """What the command has to know: a marker, the runtime's file, whose work it is, where."""

    mark: str
    digest: str
    size: int
    key: str
    folder: str
    python: str

    def command(self, mode: str) -> str:
        """The command that ends up being the runtime in a mode: `hand` or `relay`."""
        code = base64.b64encode(_BOOT.encode()).decode()
        words = (self.mark, self.digest, str(self.size), self.key, self.folder or '""', mode)
        pythons = self.python or " ".join(PYTHONS)
        script = (
            f"f=; for p in {pythons}; do "
            "command -v $p >/dev/null 2>&1 || continue; "
            f'$p -I -S -c "import base64;exec(base64.b64decode(\\"{code}\\"))" {" ".join(words)}; '
            f"r=$?; [ $r = {TOO_OLD} ] || [ $r = 127 ] || exit $r; "
            'f="$f $p=$($p -V 2>&1)"; done; '
            f'printf "\\n%s{{\\"trouble\\":\\"python\\",\\"found\\":\\"%s\\"}}\\n" {self.mark} "$f"'
        )
        return f"exec sh -c {shlex.quote(script)}"
