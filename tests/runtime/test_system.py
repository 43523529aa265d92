"""Folders of one's own where everybody may make some."""

import os
import stat
from pathlib import Path

import pytest

from stellwerk.runtime.system import make_own


def test_a_folder_that_somebody_else_has_made_is_not_ones_own(tmp_path: Path) -> None:
    """Nor is a link, whoever's; one's own is closed to others, if it wasn't."""
    place = tmp_path / "stellwerk-1000"
    make_own(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    place.chmod(0o777)
    make_own(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    link = tmp_path / "link"
    link.symlink_to(place)
    with pytest.raises(PermissionError, match="another user"):
        make_own(str(link))
    if os.geteuid() == 0:
        os.chown(place, 12_345, -1)
        with pytest.raises(PermissionError, match="another user"):
            make_own(str(place))
