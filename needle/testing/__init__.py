"""Gradient checks: the graph's gradients against central differences, and what is wrong where they differ."""

from needle.testing.check import assert_gradients as assert_gradients
from needle.testing.check import check_gradients as check_gradients
from needle.testing.report import Finding as Finding
from needle.testing.report import WrongGradient as WrongGradient
