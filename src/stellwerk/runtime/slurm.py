"""Stands in for Slurm's `scontrol` inside of a job whose launcher is `slurm`.

Programs made for Slurm save when they are told to, and then ask `scontrol requeue` to be put back:
Slurm ends them in that moment. Here their wrapper does, and notes that they are to run again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .files import RunFiles, write_atomically
from .spec import PUT_ME_BACK
from .stopping import End

NODES = "SLURM_JOB_NODELIST"
"""Only jobs of this launcher are given it."""
PUT_BACK = "put_back"
ENDS_IN_MS = 500
"""So long after it has asked a job is ended: its `scontrol` says that all is well first."""

_SCONTROL = """\
#!/bin/sh
# Stands in for Slurm's scontrol: puts this job back, and names its machines.
case "$1 $2" in
"show hostnames" | "show hostname")
    printf '%s\\n' "${3:-$SLURM_JOB_NODELIST}" | tr ',' '\\n'
    exit 0 ;;
esac
if [ "$1" != requeue ]; then
    echo "scontrol: in a job of Stellwerk there is only \\`requeue\\` and \\`show hostnames\\`" >&2
    exit 1
fi
if [ "${2:-$SLURM_JOB_ID}" != "$SLURM_JOB_ID" ]; then
    echo "scontrol: only this job ($SLURM_JOB_ID) can be put back from inside of it, not $2" >&2
    exit 1
fi
control="${STELLWERK_STOP_FILE%/*}/control"
if [ ! -p "$control" ]; then
    echo "scontrol: nobody looks after this job any more who could put it back" >&2
    exit 1
fi
echo '{"op": "put_back"}' > "$control"
"""


def path_with_stand_in(env: Mapping[str, str], files: RunFiles) -> dict[str, str]:
    """The PATH on which the stand-in comes first; nothing for a job of another launcher."""
    if NODES not in env:
        return {}
    folder = files.path("slurm")
    place = os.path.join(folder, "scontrol")
    if not os.path.exists(place):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_atomically(place, _SCONTROL.encode("ascii"))
        os.chmod(place, 0o700)
    return {"PATH": f"{folder}:{env['PATH']}"}


def asked_back(end: End) -> End:
    """The end of a job that has saved and asked to be put back, and was ended for that.

    It asks so when its time is over too: it is put back then as after any other notice.
    """
    if end.how in {"cancelled", "peer"}:
        return end
    how = end.how if end.how in {"notice", "window"} else "exited"
    return End(how, PUT_ME_BACK, None, checkpointed=True, put_back=True)
