"""What the codes of refusals mean for who is refused."""

import re
from pathlib import Path

import stellwerk.server
from stellwerk.server.rules import TABLE, rule_of

RAISED = re.compile(r'(?:\.of|Problem|refusal)\(\s*"([a-z-]+/[a-z-]+)"')


def test_no_code_of_the_server_counts_as_its_own_mistake() -> None:
    """A refusal without a rule would be told as one, with a status that says `try again`."""
    folder = Path(stellwerk.server.__file__).parent
    codes = {code for file in folder.rglob("*.py") for code in RAISED.findall(file.read_text())}
    assert len(codes) > 20
    assert sorted(code for code in codes if rule_of(code) is TABLE["internal"]) == []
