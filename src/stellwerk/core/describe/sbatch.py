"""Decides what a batch script for Slurm means as a task: its `#SBATCH` lines and its body.

Amounts, times, accelerators and signals are taken over. What belongs to one Slurm cluster is named
as ignored; what would make the job another one is refused. The body runs once, as sbatch runs it;
`srun COMMAND` runs the command, and the SLURM_ variables that the body reads are set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import structs

from stellwerk.core.describe.arrays import ARRAY_REMEDY, read_array, read_dependency
from stellwerk.core.describe.environment import Given, check_name, read_environment
from stellwerk.core.describe.extras import PREFIX
from stellwerk.core.describe.fields import did_you_mean
from stellwerk.core.describe.names import is_name
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.overrides import Overrides, apply_overrides
from stellwerk.core.describe.reader import acceptable
from stellwerk.core.describe.sbatch_amounts import Amounts, read_amounts
from stellwerk.core.describe.sbatch_options import OPTIONS, SHORT, Option
from stellwerk.core.describe.sbatch_script import body_of
from stellwerk.core.describe.support import unsupported
from stellwerk.core.describe.tasks import Reading
from stellwerk.core.model.task import Dag, JobRecovery, ResourceRequest, Task

_SHELL = re.compile(r"#!\s*(?:/usr)?/bin/(?:env\s+)?(?:ba)?sh(?:\s+-([a-z]+))?\s*")
_DIRECTIVE = re.compile(r"#SBATCH(?:[ \t]+(.*))?")


MOST_LINES = 200
LONGEST_LINE = 8192


class Directive(NamedTuple):
    """An option with its value, and where it stands."""

    option: Option
    value: str
    place: Node


def read_sbatch(text: str, file: str = "") -> Task:
    """The task of a batch script; raises SpecError with every problem found."""
    task = read_batch(text, file=file).task
    assert isinstance(task, Task)
    return task


def read_batch(
    text: str,
    *,
    file: str = "",
    env: Mapping[str, str | None] | None = None,
    secrets: Mapping[str, str] | None = None,
    name: str | None = None,
    overrides: Overrides | Mapping[str, Any] | None = None,
) -> Reading:
    """As `read_sbatch`, with flags laid over the script's own options."""
    report = Report(file)
    if not acceptable(text, report):
        report.finish()
    directives = _directives(report, text)
    found = _last_of_each(report, directives)
    amounts = read_amounts(report, {name: (d.value, d.place) for name, d in found.items()})
    given = _given(report, found, env or {}, secrets or {})
    environment = read_environment(report, Node("map", 0, 0), given)
    task = _task(report, text, found, amounts, environment.envs)
    task = structs.replace(task, secrets=tuple(environment.secrets))
    changed: Task | Dag = apply_overrides(report, task, Overrides.of(overrides, name))
    report.finish()
    told = structs.replace(changed, ignored=tuple(report.ignored), notices=tuple(report.notices))
    return Reading(told, (environment.secrets,), text, tuple(unsupported(told)))


def _task(
    report: Report,
    text: str,
    found: Mapping[str, Directive],
    amounts: Amounts,
    envs: dict[str, str],
) -> Task:
    shell = _SHELL.fullmatch(text.split("\n", 1)[0].rstrip("\r"))
    if shell is None:
        first = Node("scalar", 1, 1)
        message = "the script must begin with `#!/bin/bash`"
        report.problem("spec/sbatch-shell", first, "", message, "only bash scripts can be run")
    if amounts.nodes > 1:
        message = "sbatch runs a script on the first node alone, a task runs on every node"
        remedy = "use a task file with `num_nodes`, whose `run` starts on every node"
        report.problem("spec/sbatch-nodes", found["nodes"].place, "--nodes", message, remedy)
    name = _name(report, found.get("job-name"))
    run = body_of(report, text, shell[1] or "" if shell else "", name or "", amounts)
    request = ResourceRequest(
        accelerators=amounts.accelerators,
        selector=amounts.selector,
        cpus=amounts.cpus,
        memory=amounts.memory,
        disk_bytes=amounts.disk_bytes,
        job_recovery=JobRecovery() if "requeue" in found else None,
    )
    return Task(
        name=name,
        workdir=found["chdir"].value if "chdir" in found else ".",
        num_nodes=amounts.nodes,
        resources=(request,),
        envs=envs,
        run=run,
        time_limit_ms=amounts.time_ms,
        checkpoint_grace_ms=max((s.lead_ms for s in amounts.signals), default=0) or None,
        notice_signals=amounts.signals,
        labels=_labels(report, found),
        output=found["output"].value if "output" in found else None,
        error_output=found["error"].value if "error" in found else None,
    )


def _labels(report: Report, found: Mapping[str, Directive]) -> dict[str, str]:
    """`--array` and `--dependency` as the labels that mean the same."""
    labels: dict[str, str] = {}
    array, waits = found.get("array"), found.get("dependency")
    if array is not None:
        wanted = read_array(array.value)
        if isinstance(wanted, str):
            report.problem("spec/value", array.place, "--array", wanted, ARRAY_REMEDY)
        labels[f"{PREFIX}array"] = array.value
    if waits is not None:
        after = read_dependency(waits.value)
        if isinstance(after, str):
            remedy = "write `afterok:NAME`, `afterany:NAME` or `afternotok:NAME`"
            report.problem("spec/value", waits.place, "--dependency", after, remedy)
        else:
            labels[f"{PREFIX}after"] = ", ".join(f"{one.when}:{one.name}" for one in after)
    return labels


def _directives(report: Report, text: str) -> list[Directive]:
    """The options in the lines before the first command, as sbatch reads them."""
    found: list[Directive] = []
    body_begun, lines = False, 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE.fullmatch(line.rstrip("\r"))
        if match is None:
            stripped = line.strip()
            body_begun = body_begun or bool(stripped and not stripped.startswith("#"))
        elif body_begun:
            place = Node("scalar", number, 1)
            message = "this `#SBATCH` line stands behind a command, where sbatch doesn't read it"
            report.notice("spec/sbatch-late", place, "", message, "move it up, before all commands")
        else:
            lines += 1
            place = Node("scalar", number, 9)
            if lines > MOST_LINES or len(line) > LONGEST_LINE:
                message = f"there are more than {MOST_LINES} `#SBATCH` lines, or a very long one"
                report.problem("spec/too-large", place, "", message)
                break
            found += _options(report, match[1] or "", place)
    return found


def _options(report: Report, written: str, place: Node) -> list[Directive]:
    import shlex

    try:
        words = shlex.split(written, comments=True)
    except ValueError:
        report.problem("spec/sbatch-line", place, "", "a quote in this line isn't closed")
        return []
    if words[:1] == ["hetjob"]:
        report.problem("spec/sbatch-refused", place, "", "jobs of unlike parts can't be run yet")
        return []
    found: list[Directive] = []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            attached = value if equals else None
        elif word.startswith("-") and len(word) > 1:
            name = SHORT.get(word[1], word[1])
            attached = word[2:].removeprefix("=") or None
        else:
            message = f"`{word[:40]}` is no option"
            report.problem("spec/sbatch-option", place, "", message, "sbatch would ignore it")
            continue
        option = _option(report, place, name)
        if option is None:
            if attached is None and words and not words[0].startswith("-"):
                words.pop(0)
            continue
        if attached is None and option.takes == "value":
            if not words:
                report.problem(
                    "spec/sbatch-option", place, f"--{name}", f"`--{name}` needs a value"
                )
                continue
            attached = words.pop(0)
        found.append(Directive(option, attached or "", place))
    return found


def _option(report: Report, place: Node, name: str) -> Option | None:
    option = OPTIONS.get(name)
    if option is not None:
        return option
    remedy = did_you_mean(name, OPTIONS, cutoff=0.8).replace("`", "`--", 1)
    if remedy:
        message = f"there is no option `--{name[:40]}`"
        report.problem("spec/sbatch-option", place, f"--{name}", message, remedy)
    else:
        report.ignore(place, f"--{name[:40]}", f"`--{name[:40]}` is unknown here")
    return None


def _last_of_each(report: Report, directives: list[Directive]) -> dict[str, Directive]:
    found: dict[str, Directive] = {}
    for one in directives:
        name = one.option.name
        if one.option.fate == "used":
            found[name] = one
        elif one.option.fate == "ignored":
            shown = f"--{name} {one.value}".strip()
            report.ignore(one.place, f"--{name}", f"`{shown[:80]}`: {one.option.reason}")
        else:
            message = f"`--{name}` can't be taken over"
            report.problem(
                "spec/sbatch-refused", one.place, f"--{name}", message, one.option.reason
            )
    for name in ("output", "error"):
        if name in found:
            message = f"`--{name}`: the output is kept by Stellwerk; see `stw logs`"
            report.ignore(found[name].place, f"--{name}", message)
    return found


def _name(report: Report, directive: Directive | None) -> str | None:
    if directive is None or is_name(directive.value):
        return directive.value if directive else None
    name = re.sub(r"[^A-Za-z0-9]+", "-", directive.value).strip("-")[:100].strip("-") or "job"
    message = f"the name `{directive.value[:60]}` becomes `{name}`"
    remedy = "names have letters and digits, with `.`, `_` or `-` between them"
    report.notice("spec/name", directive.place, "--job-name", message, remedy)
    return name


def _given(
    report: Report,
    found: Mapping[str, Directive],
    env: Mapping[str, str | None],
    secrets: Mapping[str, str],
) -> Given:
    """`--export` sets variables; that sbatch hands over the caller's own is told as ignored."""
    directive = found.get("export")
    if directive is None or directive.value.upper() == "NONE":
        return Given(env, secrets)
    envs: dict[str, str | None] = {}
    for part in directive.value.split(","):
        name, equals, value = part.strip().partition("=")
        if name.upper() in {"ALL", "NIL"} and not equals:
            message = "`--export=ALL`: a job starts from a fresh login, not from your shell"
            report.ignore(directive.place, "--export", message)
        elif equals:
            if check_name(report, directive.place, "--export", name):
                envs[name] = value
        elif env.get(name) is None and name:
            message = f"`{name[:60]}` is to come from your shell"
            remedy = f"give it with `--env {name[:60]}`"
            report.problem("spec/env-missing", directive.place, "--export", message, remedy)
    return Given({**envs, **env}, secrets)
