"""What the wheel carries beside the code, where the package is installed from one: its licences, and no symbols.

In: the installed distribution. Out: nothing to see if the package was only put on the path.
"""

from importlib import metadata
from pathlib import Path

import pytest

from kimi_xtml import _kimi_xtml

try:
    WHEEL = metadata.distribution("kimi-xtml")
except metadata.PackageNotFoundError:
    pytest.skip("kimi-xtml is not installed", allow_module_level=True)


@pytest.mark.parametrize(("name", "says"), [("LICENSE-APACHE", "Apache License"), ("LICENSE-MIT", "MIT License")])
def test_the_licences(name: str, says: str) -> None:
    assert name in (WHEEL.metadata.get_all("License-File") or [])
    (text,) = [file.read_text() for file in WHEEL.files or [] if file.name == name]
    assert says in text


def test_the_module_is_stripped() -> None:
    assert Path(_kimi_xtml.__file__).stat().st_size < 3 << 20
