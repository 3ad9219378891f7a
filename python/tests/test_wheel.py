"""What the wheel carries beside the code, where the package is installed from one: its licences, and no symbols.

In: the installed distribution. Out: nothing to see if the package was only put on the path.
"""

import subprocess
import sys
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
    """With its symbols it would have several times as much."""
    assert Path(_kimi_xtml.__file__).stat().st_size < 4 << 20


def test_an_import_loads_the_package_alone() -> None:
    """10 ms over an empty interpreter; `typing` alone takes longer."""
    code = "import sys; before = set(sys.modules); import kimi_xtml; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["kimi_xtml", "kimi_xtml._kimi_xtml"]
