"""What systemd is told of the service that keeps people's runtimes, as text to put into a file.

The jobs of all people are below it, so whatever a unit forbids would be forbidden to them: it takes
nothing away. What the service itself doesn't need, it gives up by itself (`few_rights.py`). At its
end only its own process is ended, and no job.
"""

import shlex
from collections.abc import Sequence

NAME = "stellwerk-people"
FOLDER = f"/var/lib/{NAME}"
PLACE = f"/etc/systemd/system/{NAME}.service"


def unit(argv: Sequence[str]) -> str:
    """The unit for a command line."""
    command = shlex.join(argv).replace("%", "%%").replace("$", "$$")
    return f"""\
# {PLACE}
# systemctl daemon-reload && systemctl enable --now {NAME}
[Unit]
Description=Stellwerk: keeps people's runtimes, each as that person
After=network-online.target remote-fs.target nss-user-lookup.target
Wants=network-online.target

[Service]
ExecStart={command}
Restart=on-failure
KillMode=process
RuntimeDirectory={NAME}
RuntimeDirectoryMode=0755
StateDirectory={NAME}
StateDirectoryMode=0700
UMask=0077
TasksMax=infinity

[Install]
WantedBy=multi-user.target
"""
