"""Where assignments are, and how one is read: `NAME.py`, the reference solution, and beside it `NAME_checks.py`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from needle.course.checks import Check
from needle.errors import FileFormatError, OptionError

FOLDER = Path(__file__).with_name("assignments")
ORDER = ("autograd_basics", "nn_and_optimizers", "ndarray_and_strides", "convolution", "recurrent_nets", "attention")
"""The built-in assignments, in the order in which a course takes them."""


@dataclass(frozen=True)
class Assignment:
    """An assignment, by the path of its reference solution."""

    path: Path

    @property
    def name(self) -> str:
        """The name, which is also that of the file which students get."""
        return self.path.stem

    @property
    def built_in(self) -> bool:
        """Whether it comes with needle, so that `find` knows it by its name."""
        return self.path.parent == FOLDER

    @property
    def checks_path(self) -> Path:
        """The file of the checks."""
        return self.path.with_name(f"{self.name}_checks.py")

    def source(self) -> str:
        """Read the reference solution."""
        return self.path.read_text(encoding="utf-8")

    def title(self) -> str:
        """Give the first line of the reference solution's docstring."""
        return self.source().lstrip('"').partition("\n")[0].rstrip('".')

    def checks(self) -> list[Check]:
        """Read the list CHECKS of the file of the checks.

        Raises:
            FileFormatError: it has no such list, or two checks have one name.
        """
        found = getattr(load_module(self.checks_path, self.checks_path.stem), "CHECKS", None)
        if not isinstance(found, list) or not found or not all(isinstance(check, Check) for check in found):
            raise FileFormatError(f"{self.checks_path}: there is no list CHECKS of needle.course.Check in it")
        names = [check.name for check in found]
        if len(set(names)) < len(names):
            raise FileFormatError(f"{self.checks_path}: two checks are called {max(names, key=names.count)!r}")
        return found


def built_in() -> list[Assignment]:
    """Give the assignments that come with needle.

    >>> [assignment.name for assignment in built_in()][:2]
    ['autograd_basics', 'nn_and_optimizers']
    """
    return [Assignment(FOLDER / f"{name}.py") for name in ORDER]


def find(name: str) -> Assignment:
    """Give the assignment of that name, or the one whose reference solution is the file of that path.

    Raises:
        OptionError: there is none.

    >>> find("attention").title()
    'Attention: the softmax, scaled dot products with many heads, and a transformer layer'
    """
    path = FOLDER / f"{name}.py" if name in ORDER else Path(name)
    assignment = Assignment(path.resolve())
    if path.suffix != ".py" or not path.is_file() or not assignment.checks_path.is_file():
        raise OptionError(
            f"course: there is no assignment {name!r}; give one of {', '.join(ORDER)}, or the path of a reference "
            "solution NAME.py that has its NAME_checks.py beside it"
        )
    return assignment


def load_module(path: Path, name: str) -> ModuleType:
    """Run a Python file as a module of that name."""
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # as an import does: dataclasses and pickles look there
    spec.loader.exec_module(module)
    return module
