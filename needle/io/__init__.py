"""Checkpoints, and the libraries that needle can do without."""

from .checkpoint import check_writable as check_writable
from .checkpoint import load as load
from .checkpoint import replacing as replacing
from .checkpoint import save as save
from .dlpack import from_dlpack as from_dlpack
from .optional import require as require
