"""A container image of a handful of this machine's own programs, and a tool that hands it over."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

NAME = "test/image:1"
ENV = ["PATH=/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE=yes"]
PROGRAMS = "bash cat id ls mkdir sleep touch rm true".split()
STAND_IN = """#!/bin/bash
here=$(dirname "$0")
echo "$*" >> "$here/asked"
case "$1 $2 $3" in
  "image inspect test/image:1")
    [ -e "$here/pulled" ] && cat "$here/inspect.json" ;;
  "pull test/image:1 ") echo pulling; touch "$here/pulled" ;;
  "pull "*) echo "no such image" >&2; exit 125 ;;
  "create "*) echo c0ffee ;;
  "export c0ffee ") cat "$here/image.tar" ;;
  "rm c0ffee ") ;;
  *) exit 1 ;;
esac
"""
APPTAINER = """#!/bin/bash
PATH=/usr/bin:/bin
here=$(dirname "$0")
echo "$1 $2 ${3##*/} $4" >> "$here/asked"
[ "$1 $2" = "build --sandbox" ] || exit 1
[ ! -e "$3" ] || { echo "FATAL:   While checking build target" >&2; exit 255; }
echo "INFO:    Starting build..." >&2
mkdir "$3" && tar -x -f "$here/image.tar" -C "$3"
if [ "$4" != docker://test/image:1 ]; then
  echo "FATAL:   While performing build: no such image" >&2
  exit 255
fi
mkdir -p "$3/.singularity.d/env"
cp "$here/env.sh" "$3/.singularity.d/env/10-docker2singularity.sh"
"""


def image_tar() -> bytes:
    """The files of an image: programs of this machine with their libraries, and a mark."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder in ("tmp", "root", "etc", "proc", "sys", "dev", "var"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        link = tarfile.TarInfo("var/data")
        link.type, link.linkname = tarfile.SYMTYPE, "/srv/data"
        tar.addfile(link)
        for path in sorted(needed_files()):
            add(tar, path.lstrip("/"), Path(path).read_bytes())
        add(tar, "etc/in-image", b"in the image\n")
        add(tar, "etc/passwd", b"boss:x:0:0::/home/boss:/bin/bash\n")
    return content.getvalue()


def needed_files() -> set[str]:
    found: set[str] = set()
    for program in PROGRAMS:
        path = shutil.which(program, path="/usr/bin:/bin")
        assert path is not None
        found.add(path)
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        found |= {word for word in said.split() if word.startswith("/")}
    return found


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o755
    tar.addfile(entry, io.BytesIO(content))


def stand_in(folder: Path) -> None:
    """Puts a `podman` into a folder that has this one image to give."""
    folder.mkdir()
    (folder / "podman").write_text(STAND_IN)
    (folder / "podman").chmod(0o755)
    content = image_tar()
    (folder / "image.tar").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    (folder / "inspect.json").write_text(json.dumps([{"Id": digest, "Config": {"Env": ENV}}]))


def apptainer_alone(folder: Path, name: str = "apptainer") -> None:
    """Puts an `apptainer` there, which writes the image's files and variables where it is told."""
    folder.mkdir()
    (folder / name).write_text(APPTAINER)
    (folder / name).chmod(0o755)
    (folder / "image.tar").write_bytes(image_tar())
    path, other = (line.partition("=") for line in ENV)
    (folder / "env.sh").write_text(
        f'#!/bin/sh\nexport PATH="{path[2]}"\nexport {other[0]}="${{{other[0]}:-"{other[2]}"}}"\n'
    )


def add_driver(folder: Path) -> None:
    """Puts a driver's library and program there, and a linker that knows of the library."""
    files = {
        "libcuda.so.550": "driver library\n",
        "nvidia-smi": "#!/usr/bin/bash\necho one card\n",
        "ldconfig": (
            "#!/bin/bash\n"
            f"echo '\tlibcuda.so.1 (libc6,x86-64) => {folder}/libcuda.so.1'\n"
            f"echo '\tlibcuda.so.1 (libc6) => {folder}/lib32/libcuda.so.1'\n"
            f"echo '\tlibc.so.6 (libc6,x86-64) => /lib/libc.so.6'\n"
        ),
    }
    for name, text in files.items():
        (folder / name).write_text(text.replace("\\t", "\t"))
        (folder / name).chmod(0o755)
    link = folder / "libcuda.so.1"
    if not link.is_symlink():
        link.symlink_to("libcuda.so.550")


def docker_archive() -> bytes:
    """The image as `podman load` takes it."""
    layer = image_tar()
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ENV},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{}],
    }).encode()  # fmt: skip
    name = hashlib.sha256(config).hexdigest()
    manifest = [
        {"Config": f"{name}.json", "RepoTags": [f"localhost/{NAME}"], "Layers": ["layer.tar"]}
    ]
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        add(tar, f"{name}.json", config)
        add(tar, "layer.tar", layer)
        add(tar, "manifest.json", json.dumps(manifest).encode())
    return content.getvalue()
