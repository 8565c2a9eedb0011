"""What the tests of train_cnn.py and of its companions share."""

import subprocess
import sys
from pathlib import Path

import pytest
import train_cnn

import needle as ndl
from needle.io import load

APP = Path(train_cnn.__file__)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run in a folder of the test's, without a report unless asked for; give the result and the last checkpoint."""
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    threads = ndl.num_threads()

    def run(*options):
        report = [] if "--report" in options else ["--no-report"]
        result = train_cnn.main([*map(str, options), *report])
        return result, load(tmp_path / "checkpoints" / "last.safetensors")

    yield run
    ndl.set_num_threads(threads)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start train_cnn.py as a process of its own, in a folder of the test's."""
    pytest.importorskip("safetensors")
    monkeypatch.setenv("PYTHONPATH", str(APP.parents[1]))
    started = []

    def start(*options, **settings):
        command = [sys.executable, str(APP), "--no-report", *map(str, options)]
        process = subprocess.Popen(
            command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
