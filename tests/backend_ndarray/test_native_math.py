"""Native elementwise functions, reductions and softmaxes: accuracy in ulp, special values, layouts."""

import itertools

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from tests.native import needs_native

pytestmark = needs_native

INF, NAN = np.inf, np.nan
FUNCTIONS = ("exp", "log", "sqrt", "tanh", "sigmoid", "erf")
ULP = {"exp": 1.1, "log": 1.0, "sqrt": 0.5, "tanh": 1.5, "sigmoid": 1.7, "erf": 1.4}


def native(values, dtype=None):
    return nd.array(values, device=ndl.cpu(), dtype=dtype or values.dtype)


def exact(name, x):
    """Give the function in the widest type there is: float64 for float32, the C library's long double for float64."""
    with np.errstate(all="ignore"):
        x = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
        if name == "sigmoid":
            e = np.exp(-np.abs(x))
            return np.where(x < 0, e, 1) / (1 + e)
        if name == "erf":
            return erf(x)
        return getattr(np, name)(x)


def erf(x):
    """Give erf by its series up to 2 in size, and 1 - erfc by its continued fraction beyond."""
    a, pi = np.abs(x), np.arctan(x.dtype.type(1)) * 4
    inner, outer = np.minimum(a, 2), np.clip(a, 2, 30)
    term = total = inner
    for n in range(1, 60):
        term = -term * inner**2 / n
        total = total + term / (2 * n + 1)
    fraction = np.zeros_like(x)
    for n in range(120, 0, -1):
        fraction = n / 2 / (outer + fraction)
    beyond = 1 - np.exp(-(outer**2)) / (outer + fraction) / np.sqrt(pi)
    return np.copysign(np.where(a <= 2, total * 2 / np.sqrt(pi), beyond), x)


def error_in_ulp(got, expected):
    """Give the largest error in units of the rounded value's last place; infinity where a special value is wrong."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(got.dtype)
        size = np.abs(rounded)
        unit = np.where(size == np.finfo(got.dtype).max, size - np.nextafter(size, 0), np.spacing(size))
        error = np.abs(got - expected) / unit
        edge = np.finfo(got.dtype).max * (1 - 1e-6)
    plain = np.isfinite(rounded) & np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    at_the_edge = np.minimum(size, np.abs(got)) >= edge  # the one overflows, the other does not quite
    if not np.all(plain | same | at_the_edge):
        return INF
    return float(np.max(error[plain], initial=0))


def every_exponent(dtype, count, seed=0):
    """Draw bit patterns: every exponent and both signs, subnormal numbers, infinities and NaN among them."""
    bits = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64, endpoint=False)
    return bits.astype(np.uint32).view(np.float32) if dtype == "float32" else bits.view(np.float64)


def where_it_varies(dtype, count, seed=0):
    """Draw points where the functions are neither 0 nor 1 nor x."""
    rng = np.random.default_rng(seed)
    spans = np.array([0.5, 2, 8, 40, 110 if dtype == "float32" else 800])
    return (rng.uniform(-1, 1, count) * rng.choice(spans, count)).astype(dtype)


@pytest.mark.parametrize("count", [200_000, pytest.param(10**7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_ulp(name, dtype, count):
    for start in range(0, count, 1_000_000):
        n = min(1_000_000, count - start)
        for draw in (every_exponent, where_it_varies):
            x = draw(dtype, n, seed=start)
            error = error_in_ulp(getattr(native(x), name)().numpy(), exact(name, x))
            assert error <= ULP[name], f"{draw.__name__}, seed {start}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name, dtype):
    limits = np.finfo(dtype)
    points = [0.0, 1, 5, 20, 88.7, 104, 709.8, 745.2, limits.tiny, limits.smallest_subnormal, limits.max, INF, NAN]
    x = np.array([*points, *np.negative(points)], dtype=dtype)
    got, expected = getattr(native(x), name)().numpy(), exact(name, x)
    assert error_in_ulp(got, expected) <= ULP[name]
    signs = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[signs]), np.signbit(expected[signs]))


def test_sign_negation_and_absolute_value(dtype):
    x = np.array([0.0, -0.0, 2, -3, INF, -INF, NAN, np.finfo(dtype).smallest_subnormal], dtype=dtype)
    a = native(x)
    for got, expected in ((a.sign(), np.sign(x)), (-a, -x), (a.abs(), np.abs(x))):
        assert np.array_equal(got.numpy(), expected, equal_nan=True)
        assert np.array_equal(np.signbit(got.numpy()), np.signbit(expected))


@pytest.mark.parametrize("count", [100_000, pytest.param(10**7, marks=pytest.mark.slow)])
def test_error_of_power(dtype, count):
    limit = np.log(np.finfo(dtype).max)
    for start in range(0, count, 1_000_000):
        rng = np.random.default_rng(start)
        n = min(1_000_000, count - start)
        x = np.abs(every_exponent(dtype, n, start))
        x[::2] = np.exp(rng.normal(0, 10.0 ** rng.integers(-6, 1, len(x[::2])))).astype(dtype)
        with np.errstate(all="ignore"):
            y = (rng.uniform(-1.1, 1.1, n) * limit / np.log(x)).astype(dtype)
            wide = np.float64 if dtype == "float32" else np.longdouble
            expected = x.astype(wide) ** y.astype(wide)
        assert error_in_ulp((native(x) ** native(y)).numpy(), expected) <= 1.3, f"seed {start}"


def test_special_powers(dtype):
    limits = np.finfo(dtype)
    points = [0.0, 0.5, 1, 1.5, 2, 3, 4, 1e30, limits.max, limits.smallest_subnormal, 2.0**53, 2.0**53 - 1, INF, NAN]
    x, y = (np.array(p, dtype=dtype) for p in zip(*itertools.product([*points, *np.negative(points)], repeat=2)))
    got = (native(x) ** native(y)).numpy()
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    assert error_in_ulp(got, expected) <= 1
    signs = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[signs]), np.signbit(expected[signs]))


def test_integer_powers_are_exact(dtype):
    x, y = np.meshgrid(np.arange(-30.0, 31), np.arange(0.0, 11))
    whole = np.abs(x) ** y < 2.0 ** np.finfo(dtype).nmant
    x, y = x[whole].astype(dtype), y[whole].astype(dtype)
    assert np.array_equal((native(x) ** native(y)).numpy(), x**y)


def layouts(a):
    """Give views of an array in many layouts."""
    yield a
    yield a.permute(tuple(reversed(range(a.ndim))))
    yield a.flip()
    yield a[tuple(slice(None, None, 2) for _ in a.shape)]
    yield a[tuple(slice(None, None, -3) for _ in a.shape)]
    for axis in range(a.ndim):
        one = tuple(slice(0, 1) if d == axis else slice(None) for d in range(a.ndim))
        yield a[one].broadcast_to(a.shape)
    if a.ndim > 2:
        yield a.permute((0, *range(2, a.ndim), 1)).compact().permute((0, a.ndim - 1, *range(1, a.ndim - 1)))


SHAPES = [(1,), (15,), (1000,), (0, 3), (33, 65), (300, 3), (3, 300), (64, 64), (130, 140), (5, 6, 7), (2, 3, 17, 19)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_operands_of_every_layout(dtype, shape):
    x, y = np.random.randn(2, *shape).astype(dtype)
    for a, b in itertools.product(layouts(native(x)), layouts(native(y))):
        if a.shape != b.shape:
            continue
        p, q = a.numpy(), b.numpy()
        assert np.array_equal((a - b).numpy(), p - q)
        assert np.array_equal((a < b).numpy(), p < q)
        assert np.array_equal((a * 0.1).numpy(), p * p.dtype.type(0.1))
        assert np.array_equal(nd.where(a < b, a, b).numpy(), np.minimum(p, q))
        assert np.array_equal(nd.where(a < b, a, 0.1).numpy(), np.where(p < q, p, p.dtype.type(0.1)))
        assert np.array_equal(a.maximum(b).numpy(), np.maximum(p, q))
        other = "float64" if dtype == "float32" else "float32"
        assert np.array_equal(a.astype(other).numpy(), p.astype(other))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copies_into_every_layout(dtype, shape):
    x = np.random.randn(*shape).astype(dtype)
    for read in layouts(native(x)):
        for target in layouts(native(np.zeros(shape, dtype))):
            if target.shape == read.shape and 0 not in target.strides:
                before = target.numpy()
                target[...] = read
                assert np.array_equal(target.numpy(), read.numpy())
                target[...] = 0.1
                assert np.array_equal(target.numpy(), np.full_like(before, 0.1))


@pytest.mark.parametrize("shape", [*SHAPES, (70_000,), (200_000,), (300_000, 2), (5, 40_000), (70, 2000)], ids=str)
def test_reductions_of_every_layout(dtype, shape):
    values = np.random.randn(*shape).astype(dtype)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-11}
    for special in (None, NAN):
        if special is not None and values.size:
            values.flat[values.size // 2] = special
        for a in layouts(native(values)):
            x = a.numpy()
            for axes in itertools.chain(*[itertools.combinations(range(x.ndim), k) for k in range(x.ndim + 1)]):
                expected = x.sum(axes, dtype=np.longdouble).astype(dtype)
                np.testing.assert_allclose(a.sum(axes).numpy(), expected, **tolerance)
                if all(x.shape[axis] for axis in axes):
                    assert np.array_equal(a.max(axes).numpy(), x.max(axes), equal_nan=True)
                    assert np.array_equal(a.min(axes).numpy(), x.min(axes), equal_nan=True)
            for axis in range(x.ndim):
                if x.shape[axis]:
                    assert np.array_equal(a.argmax(axis).numpy(), x.argmax(axis))
                expected = x.cumsum(axis, dtype=np.longdouble).astype(dtype)
                np.testing.assert_allclose(a.cumsum(axis).numpy(), expected, rtol=1e-5, atol=tolerance["atol"] * 10)


@pytest.mark.slow
def test_a_sum_of_many_is_accurate():
    a = native(np.random.default_rng(0).random(10**8, dtype=np.float32))
    assert abs(a.sum().item() / a.numpy().sum(dtype=np.float64) - 1) < 1e-7


@pytest.mark.parametrize("shape", [(1,), (7, 1), (33, 65), (4, 1000), (300, 20), (3, 4, 5), (2, 10, 7, 9)], ids=str)
def test_softmaxes_of_every_layout(dtype, shape):
    for a in layouts(native((np.random.randn(*shape) * 10).astype(dtype))):
        x = a.numpy()
        for axis in range(x.ndim):
            shifted = (x - x.max(axis, keepdims=True)).astype(np.longdouble)  # rounded, as by the kernel
            log_sum = np.log(np.exp(shifted).sum(axis, keepdims=True))
            unit, of_sum = np.finfo(dtype).eps, x.shape[axis] * np.finfo("float64").eps
            expected = np.exp(shifted - log_sum)
            np.testing.assert_allclose(a.softmax(axis).numpy(), expected, rtol=4 * unit + of_sum, atol=0)
            error = np.abs(a.log_softmax(axis).numpy() - (shifted - log_sum))
            assert np.all(error <= 2 * unit * (np.abs(shifted) + np.abs(log_sum)) + of_sum)


def test_softmaxes_of_special_values(dtype):
    rows = np.array([[0, -INF, 0], [1e30, -1e30, 0], [-INF, -INF, -INF], [INF, 0, 0], [NAN, 0, 0]], dtype=dtype)
    for x in (rows, np.repeat(rows, 20, axis=1)[:, :17], np.repeat(rows, 8, axis=0)):
        for a, axis in ((native(x), 1), (native(x.T.copy()), 0), (native(x.T.copy()).permute((1, 0)), 1)):
            reference = nd.array(a.numpy(), device=ndl.cpu_numpy(), dtype=dtype)
            np.testing.assert_allclose(a.softmax(axis).numpy(), reference.softmax(axis).numpy(), rtol=1e-6)
            np.testing.assert_allclose(a.log_softmax(axis).numpy(), reference.log_softmax(axis).numpy(), rtol=1e-6)


def test_rows_are_gathered_and_added_in_order(dtype):
    for shape in ((50,), (50, 1), (50, 3), (50, 64), (50, 4, 40)):
        table = np.random.randn(*shape).astype(dtype)
        index = np.random.randint(0, 50, 2000)
        values = np.random.randn(2000, *shape[1:]).astype(dtype)
        assert np.array_equal(native(table).select(index).numpy(), table[index])
        for given in (native(values), native(values).flip().flip().compact()):
            a = native(table)
            a.add_at(index, given)
            expected = table.copy()
            np.add.at(expected, index, values)
            assert np.array_equal(a.numpy(), expected)
