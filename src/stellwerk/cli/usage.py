"""Reads a command line to its end, so that every wrong word of it is told, and not the first alone.

What is wrong is put aside under `PROBLEMS` in the context, and what is left is read again without
it; whoever carries the command out then refuses all of it together.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches

import click

from stellwerk.core.model.errors import Problem

PROBLEMS = "stellwerk.problems"
MOST = 50


class ReadsOn(click.Command):
    """A command whose usage errors are all gathered."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments; those that are wrong are left out, one after the other."""
        problems: list[Problem] = ctx.meta.setdefault(PROBLEMS, [])
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        left = list(args)
        while True:
            try:
                return super().parse_args(ctx, list(left))
            except click.UsageError as error:
                if isinstance(error, click.exceptions.NoArgsIsHelpError):
                    raise
                if not isinstance(error, _CAUSED_BY_A_WORD):
                    return self._with_extra_words(ctx, error, problems)
                remaining = without_cause(error, left, ctx)
                if len(remaining) == len(left) or len(problems) >= MOST:
                    raise
                problems.append(problem_of(error))
                left = remaining
                ctx.params.clear()

    def about_extra_words(self, ctx: click.Context) -> str:
        """What to do about words that mean nothing."""
        return f"{ctx.command_path} --help"

    def _with_extra_words(
        self, ctx: click.Context, error: click.UsageError, problems: list[Problem]
    ) -> list[str]:
        """All else has been read by then; after an unknown option they may well be its value."""
        if not any(problem.code == "usage/option" for problem in problems):
            found = problem_of(error)
            problems.append(Problem(found.code, found.message, self.about_extra_words(ctx)))
        ctx.args = []
        return []


_CAUSED_BY_A_WORD = (click.NoSuchOption, click.BadOptionUsage, click.BadParameter)


def problem_of(error: click.UsageError) -> Problem:
    """A usage error in words, with a code and what to do."""
    hint = getattr(error, "hint", "")
    message = " ".join(error.format_message().split()).rstrip(".")
    code = getattr(error, "code", "usage/arguments")
    match error:
        case click.NoSuchOption():
            code, message = "usage/option", f"there is no option `{error.option_name}`"
            near = _nearest(error)
            hint = hint or (f"did you mean `{near}`?" if near else "")
        case click.BadOptionUsage():
            code = "usage/value"
            takes_none = "does not take" in message
            hint = (
                f"write `{error.option_name}` alone"
                if takes_none
                else (f"write `{error.option_name} VALUE`")
            )
        case click.MissingParameter():
            code = "usage/missing"
        case click.BadParameter():
            code, message = "usage/value", _plainly(message)
    if not hint and error.ctx is not None:
        hint = f"{error.ctx.command_path} --help"
    return Problem(code, message[:1].lower() + message[1:], hint)


def _plainly(message: str) -> str:
    """What click says of numbers, in words."""
    message = message.replace("is not a valid integer range", "is no whole number")
    message = message.replace("is not a valid integer", "is no whole number")
    message = re.sub(r"is not in the range (-?\d+)<=x<=(-?\d+)", r"is not from \1 to \2", message)
    return re.sub(r"is not in the range x>=(-?\d+)", r"is less than \1", message)


def without_cause(error: click.UsageError, words: Sequence[str], ctx: click.Context) -> list[str]:
    """The words without those that an error is about; as many as before if they aren't found."""
    match error:
        case click.NoSuchOption() | click.BadOptionUsage():
            return _without_option(words, (error.option_name,), _meant(error, ctx))
        case click.BadParameter(param=click.Option() as option):
            names = (*option.opts, *option.secondary_opts)
            return _without_option(words, names, None if option.is_flag else option)
    return list(words)


def _nearest(error: click.NoSuchOption) -> str:
    """What may have been meant; "" if nothing is near enough."""
    near = get_close_matches(error.option_name, error.possibilities or (), 1, cutoff=0.7)
    return near[0] if near else ""


def _meant(error: click.UsageError, ctx: click.Context) -> click.Option | None:
    """The option that was meant by a mistyped one, if it takes a value."""
    near = _nearest(error) if isinstance(error, click.NoSuchOption) else ""
    for option in ctx.command.get_params(ctx):
        if isinstance(option, click.Option) and near in option.opts and not option.is_flag:
            return option
    return None


def _without_option(
    words: Sequence[str], names: Sequence[str], with_value: click.Option | None
) -> list[str]:
    """From the end on, since an option without a value is the last word."""
    for at in reversed(range(len(words))):
        name, has_value, _ = words[at].partition("=")
        if name in names or any(_is_among(one, words[at]) for one in names):
            alone = name in names and not has_value
            value = words[at + 1 : at + 2] if with_value is not None and alone else []
            taken = 1 + sum(not one.startswith("-") for one in value)
            return [*words[:at], *words[at + taken :]]
    return list(words)


def _is_among(option: str, word: str) -> bool:
    """Whether `-x` is one of the letters of `-qx`."""
    is_short = len(option) == 2 and word.startswith("-") and not word.startswith("--")
    return is_short and option[1] in word[1:]
