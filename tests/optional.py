"""Libraries that are there, made as if they were not."""

import sys


class _Hidden:
    """A finder that says of one library that it is not installed."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide(monkeypatch, library):
    """Let imports of a library, and of its parts, fail as where it is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Hidden(library), *sys.meta_path])
