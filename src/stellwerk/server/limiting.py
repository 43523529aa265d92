"""Reads what the settings say of people: limits, projects, administrators. Every mistake is told.

`limits = "ada: running=8 gpus=4; project vision: gpus=16"`, `projects = "vision: ada ben"`.
"""

from collections.abc import Iterator, Mapping

from stellwerk.config import Settings
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.limits import Aging, Limit, Limits
from stellwerk.server.people import People, user_name
from stellwerk.server.policy import Policy, Visibility

VISIBILITIES: tuple[Visibility, ...] = ("all", "names", "own")
FIELDS = ("running", "gpus", "pending")
_WAY = 'write it like limits = "ada: running=8 gpus=4; project vision: gpus=16"'


def people_of(settings: Settings, uid: int, group: str) -> People:
    """What a server knows of its people. Raises StellwerkError with every mistake."""
    problems: list[Problem] = []
    visibility = next((one for one in VISIBILITIES if one == settings.text("visibility")), None)
    if visibility is None:
        message = f"`visibility` is `{settings.text('visibility')}`"
        problems.append(Problem("config/value", message, f"write one of {', '.join(VISIBILITIES)}"))
    people, projects = _limits(settings.text("limits"), problems)
    members = _projects(settings.text("projects"), problems)
    if problems:
        raise StellwerkError(problems)
    own = user_name(uid)
    own_limit = {"": people[own]} if own in people else {}
    return People(
        uid,
        shared=bool(group),
        policy=Policy(visibility or "names", settings.number("max_priority")),
        admins=tuple(settings.text("admins").replace(",", " ").split()),
        projects=members,
        limits=Limits(
            person=Limit(
                settings.number("max_running"),
                settings.number("max_gpus"),
                settings.number("max_pending"),
            ),
            people={**people, **own_limit},
            projects=projects,
            least_run_ms=1000 * settings.number("preemption_min_runtime_s"),
            promises=settings.number("preemptions_at_once"),
            stops_per_day=settings.number("preemptions_per_day"),
            stops_per_hour=settings.number("preemptions_per_hour"),
            aging=Aging(settings.number("aging_per_hour"), settings.number("aging_most")),
            protected_ms=1000 * settings.number("protected_max_s"),
            protected_gpus=settings.number("protected_gpus"),
        ),
    )


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(";"):
        if part.strip():
            name, _, rest = part.partition(":")
            yield name.strip(), rest.strip()


def _limits(text: str, problems: list[Problem]) -> tuple[dict[str, Limit], dict[str, Limit]]:
    people: dict[str, Limit] = {}
    projects: dict[str, Limit] = {}
    for name, rest in _entries(text):
        numbers: dict[str, int] = {}
        for word in rest.split():
            field, _, value = word.partition("=")
            if field not in FIELDS or not value.isdecimal():
                message = f"`limits` says `{word}` of {name}"
                problems.append(Problem("config/value", message, _WAY))
                continue
            numbers[field] = int(value)
        kind, _, project = name.partition(" ")
        if not name or not numbers:
            problems.append(Problem("config/value", f"`limits` says nothing of `{name}`", _WAY))
        elif kind == "project":
            projects[project.strip()] = Limit(**numbers)
        else:
            people[name] = Limit(**numbers)
    return people, projects


def _projects(text: str, problems: list[Problem]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for project, rest in _entries(text):
        for user in rest.replace(",", " ").split():
            if found.setdefault(user, project) != project:
                message = f"`projects` has {user} in {found[user]} and in {project}"
                problems.append(Problem("config/value", message, "name each user once"))
        if not project or not rest:
            message = f"`projects` names nobody in `{project}`"
            help = 'write it like projects = "vision: ada ben; speech: cyd"'
            problems.append(Problem("config/value", message, help))
    return found
