"""Asking for libraries that may not be there."""

import json

import pytest

import needle as ndl
from needle.io import require


def test_an_installed_library_is_imported():
    assert require("json", extra="apps") is json


@pytest.mark.parametrize("name", ["no_such_library", "no_such_library.part"])
def test_a_missing_library_names_its_extra(name):
    with pytest.raises(ndl.MissingExtraError) as caught:
        require(name, extra="parity")
    assert str(caught.value) == f'{name} is not installed; pip install "needle[parity]" brings it'


def test_a_library_that_lacks_one_of_its_own_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency") as caught:
        require("half_there", extra="apps")
    assert not isinstance(caught.value, ndl.MissingExtraError)
