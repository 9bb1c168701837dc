"""What a user who installs the wheel gets, and what someone gets who starts a checkout without its environment."""

import email
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import venv
import zipfile

import pytest
from packaging.requirements import Requirement

import grpo_training
from grpo_training.cli import program
from tests.conftest import ROOT
from tests.support.command_help import help_of_all

COMMANDS = program.commands()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel of this checkout and what its build printed."""
    folder = tmp_path_factory.mktemp("wheel")
    build = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel, build.stdout + build.stderr


@pytest.mark.parametrize("target", ["local", "finetune"])
def test_make_shows_downloads_that_take_minutes(target, tmp_path):
    make = ["make", "--dry-run", target, f"VENV={tmp_path}"]
    printed = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [install] = [line for line in printed.splitlines() if f"--editable '.[{target}]'" in line]
    assert "--quiet" not in install


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder as site-packages has it: the wheel unpacked, nothing of the checkout."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(folder)
    return folder


def run(arguments, *, cwd, path, python=sys.executable):
    return subprocess.run(
        [python, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=100,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(path), "COLUMNS": "100", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip


def test_the_build_prints_no_warning(built):
    assert "warn" not in built[1].lower()


def test_the_wheel_holds_every_tracked_file_of_the_packages_and_the_shipped_data(built):
    packages = ("engine", "grpo_training", "prompts")
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *packages],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    expected = {name for name in tracked if (ROOT / name).is_file()}
    expected |= {f"engine/{path.relative_to(ROOT)}" for path in (ROOT / "data/models/pocket").iterdir()}
    names = ("physics", "quickstart", "quickstart_test")
    expected |= {f"engine/data/datasets/{name}.jsonl" for name in names}
    expected |= {f"engine/data/api_keys/api_config.{name}.example" for name in ("json", "full.json")}
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == expected
    assert {f"{package}/py.typed" for package in packages} <= names


def test_the_metadata_of_the_wheel(built):
    with zipfile.ZipFile(built[0]) as wheel:
        [path] = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(path))
        scripts = wheel.read(path.replace("METADATA", "entry_points.txt")).decode()
    assert metadata["Version"] == grpo_training.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert "scaffold-grpo = grpo_training.cli.program:main" in scripts


def test_help_of_an_installed_command_names_short_paths(installed, tmp_path):
    helps = help_of_all([[command] for command in COMMANDS], tmp_path, installed)
    assert len(helps) == len(COMMANDS)
    for call, shown in helps.items():
        assert shown.code == 0, call
        assert str(tmp_path) not in shown.text, call
        assert str(installed) not in shown.text, call


def test_an_installed_command_finds_the_shipped_files_and_writes_below_the_current_folder(installed, tmp_path):
    code = (
        "from engine.datasets import load_problems; print(len(load_problems('physics')))\n"
        "from grpo_training.cli.settings import POCKET_MODEL; print((POCKET_MODEL / 'model.safetensors').is_file())\n"
        "from grpo_training.train.config import GRPOTrainingConfig\n"
        "print(GRPOTrainingConfig.model_fields['output_dir'].default)\n"
    )
    done = run(["-c", code], cwd=tmp_path, path=installed)
    assert done.stdout.split() == ["36", "True", str(tmp_path / "outputs/grpo")], done.stderr


def test_the_console_script_runs_commands(tmp_path):
    start = ["-c", "from grpo_training.cli.program import main; main()"]
    helped = run([*start, "--help"], cwd=tmp_path, path=ROOT)
    assert all(f"  {command} " in helped.stdout for command in COMMANDS)
    assert run([*start, "--version"], cwd=tmp_path, path=ROOT).stdout.strip() == grpo_training.__version__
    assert run([*start, "prepare-data", "--help"], cwd=tmp_path, path=ROOT).returncode == 0
    unknown = run([*start, "generator4"], cwd=tmp_path, path=ROOT)
    assert unknown.returncode == 1
    assert re.search(r"Unknown command 'generator4'\n  Did you mean 'generator\d'\?", unknown.stderr)


def without(folder, *modules):
    """A folder for PYTHONPATH in which modules are missing, as in a Python that has only some of the packages."""
    code = "import sys\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n"
    code += f"        if name.partition('.')[0] in {modules!r}:\n"
    code += "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
    code += "sys.meta_path.insert(0, Finder())\n"
    (folder / "sitecustomize.py").write_text(code)
    return folder


@pytest.mark.parametrize("start", [["-m", "grpo_training.generator1"], ["-m", "grpo_training", "generator1"]])
def test_a_python_without_the_dependencies_gets_one_clear_message(tmp_path, start):
    venv.create(tmp_path / "bare", with_pip=False)
    done = run(start, cwd=ROOT, path="", python=tmp_path / "bare/bin/python")
    assert done.returncode == 1
    assert done.stderr.startswith("Scaffold-GRPO's dependencies are not installed in this Python environment")
    assert "Missing: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("module", "is_script"),
    [*((module, False) for module in ("tqdm", "pydantic", "openai", "jinja2", "anyio")), ("anyio", True)],
)
def test_a_python_with_some_of_the_packages_gets_one_clear_message(tmp_path, module, is_script):
    """Also if a package of a package is missing."""
    start = ["-c", "from grpo_training.cli.program import main; main()", "generator1"]
    words = [
        "--dataset",
        "quickstart",
        "--base-url",
        "http://127.0.0.1:1/v1",
        "--model",
        "m",
        "--connect-minutes",
        "0.001",
    ]
    start = [*(start if is_script else ["-m", "grpo_training.generator1"]), *words]
    done = run(start, cwd=tmp_path, path=f"{ROOT}:{without(tmp_path, module)}")
    assert done.returncode == 1
    assert done.stderr.startswith("Scaffold-GRPO's dependencies are not installed in this Python environment")
    assert f"Missing: {module}\n" in done.stderr
    assert re.search("(make|pip) .*install|source .*/bin/activate", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_missing_package_of_an_extra_is_told_with_its_command(tmp_path):
    code = "import grpo_training.cli.before_install as one; one.explain_missing_packages(); import torch"
    done = run(["-c", code], cwd=tmp_path, path=f"{ROOT}:{without(tmp_path, 'torch')}")
    assert done.stderr.startswith("The package torch is not installed in this Python environment")
    assert "[local]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "error", ["import engine.of_nobody", "raise ModuleNotFoundError('x')", "import json.nothing, x"]
)
def test_other_errors_keep_their_traceback(tmp_path, error):
    code = f"import grpo_training.cli.before_install as one; one.explain_missing_packages(); {error}"
    done = run(["-c", code], cwd=tmp_path, path=ROOT)
    assert "Traceback" in done.stderr


def test_an_old_python_gets_one_clear_message(tmp_path):
    code = (
        "import runpy, sys; sys.version_info = (3, 9, 1, 'final', 0); sys.argv[0] = '-m'\n"
        "runpy.run_module('grpo_training.generator1')"
    )
    done = run(["-c", code], cwd=tmp_path, path=ROOT)
    assert done.stderr == "Scaffold-GRPO needs Python 3.11 or newer. This is Python 3.9.\n"


def test_the_extra_local_has_what_transformers_serve_needs():
    try:
        requirements = [Requirement(line) for line in importlib.metadata.requires("transformers") or ()]
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("transformers is not installed")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["local"]]
    needed = {entry.name for entry in requirements if entry.marker and entry.marker.evaluate({"extra": "serving"})}
    assert {"fastapi", "openai", "uvicorn"} <= needed
    assert needed <= {Requirement(line).name for line in listed}


def test_importing_the_packages_loads_no_heavy_library(tmp_path):
    heavy = "torch transformers trl ray vllm unsloth starlette datasets aiohttp openai httpx pydantic"
    code = f"import sys, engine, grpo_training.agents; print([n for n in {heavy.split()} if n in sys.modules])"
    assert run(["-c", code], cwd=tmp_path, path=ROOT).stdout == "[]\n"
