"""Setting up: the make targets' answers to an unfit Python, and what a wheel holds."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import needle as ndl

ROOT = Path(__file__).parents[1]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)


@pytest.fixture
def make(tmp_path):
    """Run make in a folder with a blank in its name, with a Python that fails where the code it is given says so."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)

    def make(fails_on, python=folder / "python"):
        stand_in = folder / "python"
        stand_in.write_text(f'#!/bin/sh\ncase "$2" in *{fails_on}*) exit 1;; esac\n')
        stand_in.chmod(0o755)
        return run("make", ".venv/bin/python", f"PYTHON={python}", cwd=folder)

    return make


@pytest.mark.parametrize(
    ("fails_on", "remedy"),
    [("version_info", r"Python 3\.10 or later.*make PYTHON="), ("ensurepip", r"apt install python3-venv")],
)
def test_make_names_the_remedy_for_an_unfit_python(make, fails_on, remedy):
    done = make(fails_on)
    assert done.returncode and re.search(remedy, done.stdout)


def test_make_names_a_python_that_is_not_there(make):
    done = make(fails_on="nothing", python="/nonexistent")
    assert done.returncode and re.search(r'There is no program "/nonexistent".*make PYTHON=', done.stdout)
    assert "3.10" not in done.stdout


def test_importing_needle_loads_numpy_and_nothing_optional():
    code = "import sys, needle; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(run(sys.executable, "-c", code, cwd=ROOT).stdout.split())
    optional = {"tqdm", "torch", "hypothesis", "pytest", "scipy", "safetensors", "PIL", "matplotlib", "tensorboardX"}
    assert "numpy" in loaded and not loaded & optional


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it compiles every kernel for every instruction set
def test_a_wheel_works_away_from_the_repository(tmp_path):
    source, installed = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    built = run(*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, source)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob(f"needle-{ndl.__version__}-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"needle/py.typed", "needle/data/datasets/digits.npz", "needle/data/datasets/README.md"} <= set(names)
    assert {name.partition("/")[0] for name in names} == {"needle", f"needle-{ndl.__version__}.dist-info"}
    assert any(name.endswith("LICENSE") for name in names)
    assert run(*pip, "install", "--no-deps", "--target", installed, wheel).returncode == 0
    code = "import needle; print(needle.__file__, len(needle.data.Digits()))"
    done = run(sys.executable, "-c", code, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(installed)})
    assert done.stdout.split() == [str(installed / "needle" / "__init__.py"), "1442"], done.stderr
    course, environment = (sys.executable, "-m", "needle.course"), os.environ | {"PYTHONPATH": str(installed)}
    assert run(*course, "make", "homework", cwd=tmp_path, env=environment).returncode == 0
    for solution in (installed / "needle" / "course" / "assignments").glob("*[!s].py"):
        if not solution.stem.startswith("__"):
            done = run(*course, "check", Path("homework") / solution.name, cwd=tmp_path, env=environment)
            assert done.returncode == 1 and "This part is not written yet." in done.stdout, done.stderr
            shutil.copy(solution, tmp_path / "homework")
            done = run(*course, "check", Path("homework") / solution.name, cwd=tmp_path, env=environment)
            assert done.returncode == 0, done.stdout + done.stderr
