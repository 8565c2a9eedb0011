"""Imports go one way: every file of the package is parsed, and its imports are held against LAYERS."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(ROOT.glob("needle/**/*.py")) + sorted(ROOT.glob("apps/**/*.py"))

# A part may import what stands above it, and itself. Those in one line are independent of each other.
LAYERS = [
    ["errors", "version"],
    ["backend_ndarray"],
    ["backend_selection", "engine"],
    ["autograd"],
    ["gradients"],
    ["init"],
    ["ops"],
    ["nn"],
    ["io"],
    ["optim", "data"],
    ["anomaly", "training"],
    ["testing"],
    ["__init__"],
    ["__main__", "course"],
    ["apps"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def part_of(module):
    """The part of the house a dotted name belongs to: `needle.ops.conv` is of `ops`, `needle` is `__init__`."""
    top, *rest = module.split(".")
    if top == "apps":
        return "apps"
    return rest[0] if rest else "__init__"


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def type_checking_blocks(tree):
    """The nodes below `if TYPE_CHECKING:`, which never run."""
    tests = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
    return {id(below) for test in tests for child in test.body for below in ast.walk(child)}


def imported(tree, module, is_package):
    """Yield (node, dotted name) of every import that runs; `from needle import ops` yields needle.ops."""
    skipped = type_checking_blocks(tree)
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            source = ".".join([*base, node.module] if node.module else base)
            if source == "needle":
                yield from ((node, f"needle.{alias.name}") for alias in node.names)
            else:
                yield node, source


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_one_way(path):
    module = module_of(path)
    for node, name in imported(parse(path), module, path.name == "__init__.py"):
        if name.split(".")[0] not in ("needle", "apps"):
            continue
        own, other = part_of(module), part_of(name)
        if own == "apps" and name.startswith("needle"):
            continue  # apps stand above everything, and take needle's public names from wherever they are
        assert other in RANK, f"{path}:{node.lineno}: {name} is no part of the house; add it to LAYERS"
        assert own == other or RANK[other] < RANK[own], f"{path}:{node.lineno}: {own} must not import {other}"


def test_every_part_has_its_place():
    assert {part_of(module_of(path)) for path in FILES} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_import_stands_in_a_function(path):
    for function in ast.walk(parse(path)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not inside, f"{path}:{inside[0].lineno}"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_star_imports(path):
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"{path}:{node.lineno}"


@pytest.mark.parametrize("path", [p for p in FILES if p.name == "__init__.py"], ids=module_of)
def test_init_files_only_re_export(path):
    for node in parse(path).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert docstring or isinstance(node, ast.Import | ast.ImportFrom), f"{path}:{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            assert all(alias.asname == alias.name for alias in node.names), (
                f"{path}:{node.lineno}: write `Name as Name`"
            )


@pytest.mark.parametrize("path", [p for p in FILES if "apps" not in p.parts], ids=module_of)
def test_the_package_prints_nothing(path):
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{path}:{node.lineno}"
