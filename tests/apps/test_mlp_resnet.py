"""mlp_resnet.py as a script; tests/interface has what it computes."""

import os
import subprocess
import sys
from pathlib import Path

import mlp_resnet

APP = Path(mlp_resnet.__file__)


def test_without_data_it_says_how_to_get_it(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(APP.parents[1])}
    command = [sys.executable, str(APP)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "apt install dataset-fashion-mnist" in done.stderr
    assert done.stderr.startswith("mlp_resnet: there is no data/train-images") and done.stderr.count("\n") == 1
