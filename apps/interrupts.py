"""Ending a run at a place of its own choice when it is told to end."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

NOTICE = b"\nending after this step; once more ends it at once\n"


class Interrupted(Exception):
    """Raised by `Interrupts.check`; says which signal there was."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number  # as shells report it


class Interrupts:
    """Note the first Ctrl-C (or SIGTERM) instead of ending at once, for `check` to raise; a second one ends at once.

    >>> with Interrupts() as interrupts:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interrupts.check()
    Traceback (most recent call last):
    interrupts.Interrupted: SIGINT
    """

    def __enter__(self) -> Interrupts:
        self._caught: int | None = None
        self._before: dict[int, Any] = {
            number: signal.signal(number, self._catch) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self._caught = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.write(2, NOTICE)  # what print does is not safe in a signal handler

    def check(self) -> None:
        """Raise Interrupted where a signal came."""
        if self._caught is not None:
            raise Interrupted(self._caught)
