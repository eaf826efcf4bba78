import subprocess
import sys

import pytest

from tests import npm
from tests.support import ROOT

INSTALL = """
import sys, pathlib
from tests import npm
npm.HOME = pathlib.Path(sys.argv[1])
print(npm.install("isarray@2.0.5"))
"""


def test_processes_that_install_the_same_at_once_share_one_installation(tmp_path):
    home = tmp_path / "npm"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", INSTALL, str(home)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    found = {process.communicate(timeout=100)[0].strip() for process in started}
    assert found == {str(home / "isarray@2.0.5" / "node_modules")}
    assert (home / "isarray@2.0.5" / "node_modules" / "isarray" / "index.js").exists()
    assert {path.name for path in home.iterdir()} == {"isarray@2.0.5", "isarray@2.0.5.lock"}


def test_a_package_that_cannot_be_had_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(npm, "HOME", tmp_path)
    with pytest.raises(npm.NpmError, match="npm could not install isarray@999"):
        npm.install("isarray@999.0.0")
    assert [path.name for path in tmp_path.iterdir()] == ["isarray@999.0.0.lock"]
