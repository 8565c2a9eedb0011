"""What a gradient check says is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from needle.errors import GradientError


@dataclass(frozen=True)
class Finding:
    """The worst element of a wrong gradient, and what the pattern of all its wrong elements suggests."""

    op: str  # its name, or "a graph that ends in" it
    order: int  # 1 for a gradient, 2 for the gradient of a gradient, ...
    input: int
    index: tuple[int, ...]
    got: float
    expected: float  # by central differences
    suggestion: str

    @property
    def relative_error(self) -> float:
        """|got - expected| / |expected|."""
        return abs(self.got - self.expected) / max(abs(self.expected), 1e-300)

    def __str__(self) -> str:
        return (
            f"{self.op}: wrong gradient of input {self.input} at {self.index} (order {self.order}): "
            f"got {self.got:.7g}, expected {self.expected:.7g} by central differences, "
            f"relative error {self.relative_error:.3g}; {self.suggestion}"
        )


class WrongGradient(GradientError):
    """A gradient that central differences contradict.

    Args:
        finding: what is wrong with the function that was checked.
        verdict: what `locate=True` found out, in words.
        culprit: what is wrong with the first op of the graph whose own gradient is wrong, where there is one.
    """

    def __init__(self, finding: Finding, verdict: str = "", culprit: Finding | None = None) -> None:
        super().__init__(f"check_gradients: {finding}" + (f"\n{verdict}" if verdict else ""))
        self.finding, self.culprit = finding, culprit
