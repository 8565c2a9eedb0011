"""Fixtures of all tests; a test that leaves global state changed fails."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import needle as ndl
from tests.devices import array, device, dtype, tensor

__all__ = ["array", "device", "dtype", "tensor"]

# The same few examples each time, unless --hypothesis-profile=long asks for many new ones.
settings.register_profile(
    "few", max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.register_profile("long", settings.get_profile("few"), max_examples=2000, derandomize=False)
settings.load_profile("few")


def _global_state() -> dict[str, object]:
    return {
        "default dtype": ndl.default_dtype(),
        "default device": ndl.default_device(),
        "recording": ndl.is_grad_enabled(),
        "LAZY_MODE": ndl.autograd.LAZY_MODE,
        "threads": ndl.num_threads(),
        "convolution algorithm": ndl.conv_algorithm(),
        "NumPy's error state": np.geterr(),
    }


@pytest.fixture(autouse=True)
def _same_start_same_end() -> Iterator[None]:
    """Seed the global generator, and hold every test to leave the package's settings as they were."""
    np.random.seed(0)
    before = _global_state()
    yield
    assert _global_state() == before, "this test, or what it ran, left global state changed"
