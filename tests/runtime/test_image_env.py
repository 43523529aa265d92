"""An image's variables out of what versions of apptainer write of them."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.errands import ErrandError
from stellwerk.runtime.image_env import SCRIPT, parse_env, read_env

HEAD = "#!/bin/sh\n"
PATH = "/usr/local/bin:/usr/bin"
LETTERS = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}


def for_shell(value: str) -> str:
    """Backslashes before what means something between double quotes."""
    return re.sub(r'(["\\$`])', r"\\\1", value)


def for_go(value: str) -> str:
    """As Go's `%q` has it, without its quotes."""

    def one(character: str) -> str:
        if character in LETTERS:
            return "\\" + LETTERS[character]
        if character in '"\\':
            return "\\" + character
        if character.isprintable():
            return character
        number = ord(character)
        form = f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}"
        return form if number < 0x10000 else f"\\U{number:08x}"

    return "".join(map(one, value))


def since_1_5(name: str, value: str) -> str:
    return f'export {name}="${{{name}:-"{for_shell(value)}"}}"\n'


def before_1_5(name: str, value: str) -> str:
    return f'export {name}="${{{name}:-"{for_go(for_shell(value))}"}}"\n'


def of_singularity_3_5(name: str, value: str) -> str:
    return f'export {name}=${{{name}:-"{for_go(for_shell(value))}"}}\n'


def of_singularity_3_0(name: str, value: str) -> str:
    return f'export {name}="{for_shell(value)}"\n'


WRITERS = [since_1_5, before_1_5, of_singularity_3_5, of_singularity_3_0]
PLAIN = st.text(st.characters(exclude_characters='\0\\"', codec="utf-8"), max_size=12)
ANY = st.text(
    st.one_of(
        st.sampled_from('\\"$`\n\t}n'), st.characters(exclude_characters="\0", codec="utf-8")
    ),
    max_size=12,
)
NAMES = st.from_regex(r"[A-Z_.-][a-z0-9_.-]{0,5}", fullmatch=True)


@pytest.mark.parametrize("write", WRITERS)
@given(env=st.dictionaries(NAMES, PLAIN, max_size=4))
def test_what_every_version_writes_is_read(
    write: Callable[[str, str], str], env: dict[str, str]
) -> None:
    """Dollars, backticks, braces, line ends and other alphabets come back as they were."""
    text = HEAD + "".join(write(name, value) for name, value in env.items())
    assert parse_env(text) == env


@pytest.mark.parametrize("write", WRITERS)
@given(value=ANY)
def test_nothing_is_read_as_something_else(write: Callable[[str, str], str], value: str) -> None:
    """With backslashes and double quotes as well: what it was, or a refusal."""
    text = HEAD + write("A", value)
    if set(value) & set('\\"'):
        with contextlib.suppress(ErrandError):
            assert parse_env(text) == {"A": value}
    else:
        assert parse_env(text) == {"A": value}


def test_what_versions_mean_differently_is_refused() -> None:
    """Three backslashes before a quote are those of one version or of another."""
    with pytest.raises(ErrandError, match="in one version of it and another in others: 'A=say"):
        parse_env(HEAD + since_1_5("A", r"say \"so\""))


def test_other_variables_tell_how_one_is_quoted() -> None:
    """A file is quoted in one way."""
    for write in (since_1_5, before_1_5):
        env = {"A": 'say "so"', "B": "$x"}
        assert parse_env(HEAD + "".join(write(*one) for one in env.items())) == env


def test_path_and_a_variable_without_a_value() -> None:
    """The first is no default, and the other is empty."""
    text = f'{HEAD}export PATH="{PATH}"\nexport A="${{A:-}}"\nexport B=${{B:-}}\n'
    assert parse_env(text) == {"PATH": PATH, "A": "", "B": ""}
    assert parse_env(HEAD) == {}


@pytest.mark.parametrize(
    "line",
    [
        'export A="$(id)"\n',
        'export A="`id`"\n',
        'export A="${A:-$B}"\n',
        'export A="${B:-"b"}"\n',
        'export A="\\x00"\n',
        'export A="\\ud800"\n',
        'export A="\\U00110000"\n',
        'export A="open\n',
        "export A=bare\n",
        'A="a"\n',
        'export A="a"; id\n',
        'export A="a"',
        "\n",
    ],
)
def test_anything_else_is_refused(line: str) -> None:
    """Nothing is evaluated, and nothing left out; the message shows the place."""
    shown = line.partition("\n")[0].partition("=")[2].strip('"')[:5]
    with pytest.raises(ErrandError, match="can't be read") as refused:
        parse_env(f'{HEAD}export PATH="{PATH}"\n{line}')
    assert shown.replace("\\", "\\\\") in str(refused.value)


def test_a_script_that_is_none(tmp_path: Path) -> None:
    """Missing, or of another kind."""
    with pytest.raises(ErrandError, match=r"left no variables .* No such file"):
        read_env(str(tmp_path))
    (tmp_path / SCRIPT).parent.mkdir(parents=True)
    (tmp_path / SCRIPT).write_bytes(b'#!/bin/sh\nexport A="\xff"\n')
    assert read_env(str(tmp_path)) == {"A": "\udcff"}
    (tmp_path / SCRIPT).write_text('export A="a"\n')
    with pytest.raises(ErrandError, match="can't be read: 'export A="):
        read_env(str(tmp_path))
