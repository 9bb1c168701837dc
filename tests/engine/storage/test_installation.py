import os
import subprocess
import sys

from engine.storage.installation import install_command
from tests.conftest import ROOT


def test_in_a_checkout_the_checkout_is_installed_from_any_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    monkeypatch.chdir(ROOT)
    assert install_command("datasets") == "python -m pip install -c constraints.txt -e '.[datasets]'"
    monkeypatch.chdir(tmp_path)
    assert install_command() == f"python -m pip install -c {ROOT}/constraints.txt -e {ROOT}"


def test_of_an_installed_package_the_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert install_command("datasets", root=tmp_path) == "python -m pip install 'datasets>=5.2'"
    assert "'torch>=" in install_command("finetune", root=tmp_path)
    assert "pydantic" in install_command(root=tmp_path)


def test_the_packages_are_named_as_pip_takes_them(monkeypatch, tmp_path):
    """Without an index, pip finds that everything is there."""
    monkeypatch.setenv("PATH", "/nowhere")  # the interpreter is named by its path
    command = install_command("datasets", root=tmp_path)
    assert command.startswith(sys.executable)
    dry = command.replace("pip install", "pip install --dry-run --no-index --quiet")
    done = subprocess.run(dry, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
