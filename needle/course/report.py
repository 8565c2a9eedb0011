"""What a check of a file found, for people and for programs."""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict, dataclass
from typing import Any

SHAPE = re.compile(r"[(\[][-\d, ]*[)\]]")  # or strides, or an index


@dataclass(frozen=True)
class Result:
    """What one check found: nothing, or a message, and a hint where the mistake is a known one."""

    name: str
    points: int
    message: str = ""
    hint: str = ""

    @property
    def passed(self) -> bool:
        """Whether there was nothing to find."""
        return not self.message


@dataclass(frozen=True)
class Report:
    """What the checks of an assignment found in a file.

    Args:
        assignment: its name.
        file: the path of the solution.
        results: one for each check, in their order.
        output: what the solution printed, cut where it is long.
    """

    assignment: str
    file: str
    results: tuple[Result, ...]
    output: str = ""

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(result.passed for result in self.results)

    @property
    def points(self) -> int:
        """The points of the checks that passed."""
        return sum(result.points for result in self.results if result.passed)

    def as_json(self) -> dict[str, Any]:
        """Give the report as a dict of strings, numbers and lists; docs/teachers.md lists the keys."""
        rows = [
            {
                **asdict(result),
                "passed": result.passed,
                "points": result.points if result.passed else 0,
                "max_points": result.points,
            }
            for result in self.results
        ]
        return {
            "assignment": self.assignment,
            "file": self.file,
            "passed": self.passed,
            "points": self.points,
            "max_points": sum(result.points for result in self.results),
            "checks": rows,
            "output": self.output,
        }

    def __str__(self) -> str:
        """Give the report as lines for people; a message that many checks share is said once."""
        lines, said = [f"{self.assignment}: {self.file}"], ""
        for result in self.results:
            lines.append(f"  {'pass' if result.passed else 'FAIL'}  {result.name}")
            if result.message and result.message != said:
                lines.append(_indented(result.message))
                lines += [_indented(f"Hint: {result.hint}")] if result.hint else []
            said = result.message
        passed = sum(result.passed for result in self.results)
        total = sum(result.points for result in self.results)
        lines.append(f"{passed} of {len(self.results)} checks passed, {self.points} of {total} points")
        if len(self.results) - passed > 1:
            lines.append("Mend the first failures first: later ones may come from them.")
        if self.output:
            lines += ["Printed by the solution:", textwrap.indent(self.output.rstrip("\n"), "  | ")]
        return "\n".join(lines)


def _indented(text: str) -> str:
    """Wrap lines, but not within a shape."""
    whole = SHAPE.sub(lambda shape: shape[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    indent = " " * 8
    lines = textwrap.fill(whole, 110, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
    return lines.replace("\N{NO-BREAK SPACE}", " ")
