"""The fixed-order contract: the bits of a result depend on neither the number of threads nor the instruction set.

Every kernel runs in a process per instruction set, with 1, 2, 3 and 7 threads, on the cases of contract_cases.py; the
hashes of all results must be equal, and the values those of the reference kernels. test_native_products.py holds small
products and convolutions, bit for bit, to the sums of fused multiply-adds that the contract names, by fma.py.
"""

import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import needle as ndl
from needle.backend_ndarray import kernels
from tests.backend_ndarray import contract_cases, fma
from tests.backend_ndarray.contract_cases import FAMILIES, all_cases, laid_out, run
from tests.native import ROOT, needs_native, run_python

pytestmark = needs_native

KERNELS = {name for name, f in vars(kernels).items() if inspect.isfunction(f) and f.__module__ == kernels.__name__}
NOT_HASHED = {"to_numpy"}  # gives no result of its own
CASES = {case.name: case for cases in all_cases().values() for case in cases}
KERNELS_OF = {name: sorted({kernel for kernel, *_ in family()}) for name, family in FAMILIES.items()}


def isas():
    """Give the instruction sets that are built and that this processor has."""
    supported = ndl.cpu().kernels.extension.supported_isas()
    return [isa for isa in ndl.cpu().kernels.isas if isa in supported]


def hashes_of(isa, *arguments):
    """Run contract_cases in a process of its own."""
    code = f"from tests.backend_ndarray import contract_cases as c; c.main(*{arguments!r})"
    done = run_python(code, NEEDLE_ISA=isa, PYTHONPATH=f"{ROOT}:{ROOT / 'apps'}", timeout=3000)
    assert done.returncode == 0, f"{isa}: {done.stderr}"
    return json.loads(done.stdout)


def assert_same_bits(*arguments):
    """Compare every case's hashes over instruction sets and threads; give the names of the cases."""
    with ThreadPoolExecutor() as pool:
        found = dict(zip(isas(), pool.map(lambda isa: hashes_of(isa, *arguments), isas())))
    first = next(iter(found.values()))
    different = []
    for name in first:
        bits = {f"{isa}, {threads} threads": h for isa in found for threads, h in found[isa][name].items()}
        if len(set(bits.values())) > 1:
            different.append(f"{name}: {bits}")
    assert not different, f"{len(different)} of {len(first)} differ:\n" + "\n".join(different)
    return list(first)


def assert_near_reference(names):
    """Compare values with the reference kernels: an error is measured by the largest value of the result."""
    wrong = []
    for case in [CASES[name] for name in names]:
        for got, expected in zip(run(case, ndl.cpu()), run(case, ndl.cpu_numpy(), layouts=False), strict=True):
            if not near(got, expected, 1e-4 if case.algorithm == "winograd4" else 1e-5):
                wrong.append(case.name)
    assert not wrong, f"{len(wrong)} of {len(names)} are not those of the reference:\n" + "\n".join(wrong)


def near(got, expected, tolerance):
    """Whether values are equal, or differ by little: `tolerance` in float32, its square in float64."""
    if got.dtype.kind != "f":
        return np.array_equal(got, expected)
    tolerance = tolerance if got.dtype == "float32" else tolerance**2
    sizes = np.abs(expected[np.isfinite(expected)])
    elementwise_or_whole = np.maximum(np.abs(expected), min(sizes.max(initial=0), 1e3))
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(got - expected) <= tolerance * elementwise_or_whole
    return bool(np.all(close | (got == expected) | (np.isnan(got) & np.isnan(expected))))


def test_every_kernel_has_cases():
    assert set(all_cases()) == KERNELS - NOT_HASHED
    assert len(CASES) >= 2000  # in two dtypes
    assert {case.kernel for case in contract_cases.sample()} == KERNELS - NOT_HASHED


def test_a_sample_has_the_same_bits():
    assert_near_reference(assert_same_bits("sample"))


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_have_the_same_bits(family):
    names = assert_same_bits("all", *KERNELS_OF[family])
    assert len(names) == sum(case.kernel in KERNELS_OF[family] for case in CASES.values())
    assert_near_reference(names)


def test_the_first_steps_of_training_have_the_same_bits():
    assert_same_bits("train", "small_cnn", "3")


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("model", ["small_cnn", "resnet9"])
def test_a_training_run_has_the_same_bits(model):
    assert_same_bits("train", model, "50")


@pytest.mark.parametrize("dtype", contract_cases.DTYPES)
def test_the_oracle_of_sums_rounds_once(dtype):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(4000).astype(dtype) for _ in range(3))
    c[::2] = -(a * b)[::2]  # cancels: what is left is what the product's rounding cut off
    c[1::4] *= 2.0**-30
    found = fma.fma(a, b, c)
    for x, y, z, result in zip(a.tolist(), b.tolist(), c.tolist(), found):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        error = abs(Fraction(float(result)) - exact)
        for neighbour in np.nextafter(result, result.dtype.type([-np.inf, np.inf])):
            other = abs(Fraction(float(neighbour)) - exact)
            assert error < other or (error == other and result.view(f"i{result.itemsize}") % 2 == 0)


def test_layouts_show_the_values():
    values = np.arange(24.0).reshape(2, 3, 2, 2)
    for layout in ("reversed", "swapped", "channels first", "channels last", "spread", "unaligned", "flipped"):
        shown = laid_out(values, layout, ndl.cpu())
        assert not shown.is_compact()
        assert np.array_equal(shown.numpy(), values)
