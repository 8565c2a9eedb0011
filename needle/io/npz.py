"""The npz format: an archive of NumPy's arrays by name, beside `state.json`."""

from __future__ import annotations

import json
import zipfile
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

STATE = "state.json"  # the member that holds the names of the arrays, and the state with null in the place of each


def write(file: IO[bytes], tree: dict[str, Any], arrays: Arrays) -> None:
    """Write arrays by name, and the state around them."""
    with zipfile.ZipFile(file, "w") as archive:
        # A ZipInfo of our own keeps the time of day out of the bytes.
        archive.writestr(zipfile.ZipInfo(STATE), json.dumps({"arrays": list(arrays), "state": tree}))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read(file: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write` wrote; raises nearly anything where the file is damaged or another's."""
    with zipfile.ZipFile(file) as archive:
        if STATE not in archive.namelist():
            raise ValueError(f"it has no {STATE}")
        stored = json.loads(archive.read(STATE))
        if archive.namelist() != [STATE, *(f"{name}.npy" for name in stored["arrays"])]:
            raise ValueError("its arrays are not those that were saved")  # the archive's directory is damaged
        return stored["state"], {name: _read_array(archive, name) for name in stored["arrays"]}


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    # Not numpy.load, which takes the names "a" and "a.npy" for the same.
    with archive.open(f"{name}.npy") as member:
        array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return array
