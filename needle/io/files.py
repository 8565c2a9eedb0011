"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` once it is written whole and on the disk, and else leaves no trace."""
    target = Path(path).resolve()  # a link stays one
    with _beside(target, os.fspath(path)) as temporary:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the OSError that `save` would meet at `path`, for telling it before long work; leaves no trace.

    >>> check_writable("/")
    Traceback (most recent call last):
    IsADirectoryError: [Errno 21] Is a directory: '/'
    """
    with _beside(Path(path).resolve(), os.fspath(path)) as temporary:
        temporary.touch()


@contextmanager
def _beside(target: Path, name: str) -> Iterator[Path]:
    """Give a path for a temporary file beside `target`, removed in the end; errors name `name` instead of it."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
    except OSError as error:
        if error.filename is None or str(error.filename) == str(temporary):  # writing gives no name
            raise OSError(error.errno, error.strerror, name) from error
        raise
    finally:
        with suppress(OSError):  # where it could not be made it cannot be removed either
            temporary.unlink()
