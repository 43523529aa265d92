"""Decides what a command is called after: the script or module that it runs, not its interpreter.

`python a.py` is `a`, `torchrun --nproc 2 train.py` is `train`, `python -m pkg.mod` is `mod`,
`bash -c '…'` is `bash`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_INTERPRETERS = re.compile(
    r"(?:python|pypy)[0-9.]*|ipython3?|bash|sh|zsh|dash|ksh|Rscript|julia|perl|ruby|node|lua|php"
)
_TEXT_BY_C = re.compile(r"(?:python|pypy)[0-9.]*|ipython3?|\w*sh")
"""Those that take a program's text after `-c` (or `-lc`); for the others it is `-e`."""

_LAUNCHERS = frozenset(
    (
        "torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec", "srun",
        "composer", "colossalai", "fabric", "lightning", "litgpt", "uv", "poetry", "pipenv",
        "pdm", "hatch", "rye", "conda", "mamba", "micromamba", "pixi", "coverage", "kernprof",
        "nsys", "ncu", "py-spy", "viztracer", "xvfb-run", "stellwerk", "stw",
    )
)  # fmt: skip
"""Programs with words of their own before the script; it is known by its ending."""

_PREFIXES = frozenset(
    (
        "env", "nohup", "nice", "ionice", "time", "timeout", "setsid", "stdbuf", "chrt", "taskset",
        "numactl", "exec", "command", "sudo", "strace", "ltrace", "catchsegv",
    )
)  # fmt: skip
"""Programs before the program."""

_STARTING_MODULES = frozenset(
    (
        "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
        "deepspeed.launcher.runner", "pdb", "cProfile", "profile", "trace", "coverage", "debugpy",
        "memory_profiler", "scalene", "viztracer", "runpy",
    )
)  # fmt: skip
"""Modules that run a script which follows."""

_SCRIPT = re.compile(r".*[^/]\.(?:py|pyz|sh|bash|zsh|R|r|jl|pl|rb|js|mjs|ts|lua|php|ipynb)")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_VALUE = re.compile(r"[0-9][0-9.,:x-]*[smhdkMG]?")
_TAKES_VALUE = frozenset(("-W", "-X", "-o", "-O", "--rcfile", "--init-file"))
_PREFIX_TAKES_VALUE = frozenset(("-u", "-C", "-n", "-s", "-k"))
MOST_WORDS = 1000


def called(argv: Sequence[str]) -> str:
    """The word that a command is best called after; "" for no command.

    A script without an ending of its kind; the last part of a module's name; else the program.
    """
    words = list(argv[:MOST_WORDS])
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    if not words:
        return ""
    program = _last_part(words[0])
    if program in _PREFIXES:
        rest = _after_prefix(words[1:])
        return called(rest) or program
    if _INTERPRETERS.fullmatch(program):
        text = "c" if _TEXT_BY_C.fullmatch(program) else "e"
        return _of_interpreter(words[1:], text) or program
    if program in _LAUNCHERS:
        return _of_launcher(words[1:]) or program
    return _without_ending(program)


def _of_interpreter(words: list[str], text: str) -> str:
    """The first word that is no option is the script; where its text is a word there is none."""
    for at, word in enumerate(words):
        if word == "-m":
            return _of_module(words[at + 1 :])
        if word.startswith("-m") and len(word) > 2 and not word.startswith("--"):
            return _of_module([word[2:], *words[at + 1 :]])
        letters = word[1:]
        if word.startswith("-") and letters.isalpha() and letters.endswith(text):
            return ""
        if at and words[at - 1] in _TAKES_VALUE:
            continue
        if not word.startswith(("-", "+")):
            return _without_ending(_last_part(word))
    return ""


def _of_module(words: list[str]) -> str:
    if not words:
        return ""
    if words[0] in _STARTING_MODULES:
        return _of_launcher(words[1:]) or _last_module_part(words[0])
    return _last_module_part(words[0])


def _of_launcher(words: list[str]) -> str:
    """Whatever is a script by its ending, a module, or an interpreter with one."""
    for at, word in enumerate(words):
        if word in {"-m", "--module"} and at + 1 < len(words):
            return _of_module(words[at + 1 :])
        if _SCRIPT.fullmatch(word):
            return _without_ending(_last_part(word))
        program = _last_part(word)
        if _INTERPRETERS.fullmatch(program) or program in _LAUNCHERS:
            return called(words[at:])
    return ""


def _after_prefix(words: list[str]) -> list[str]:
    """From the first word that is no option, number or variable."""
    for at, word in enumerate(words):
        is_value = _VALUE.fullmatch(word) or (at and words[at - 1] in _PREFIX_TAKES_VALUE)
        if not (is_value or word.startswith("-") or _ASSIGNMENT.fullmatch(word)):
            return words[at:] if any(map(str.isalnum, word)) else []
    return []


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _last_module_part(module: str) -> str:
    return module.removesuffix(".__main__").rpartition(".")[2]


def _without_ending(name: str) -> str:
    stem, dot, _ = name.rpartition(".")
    return stem if dot and stem and _SCRIPT.fullmatch(name) else name
