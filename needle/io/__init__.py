"""Files, other libraries' tensors, pictures of graphs, and the libraries that needle can do without."""

from . import torch_layout as torch_layout
from .checkpoint import load as load
from .checkpoint import save as save
from .dlpack import from_dlpack as from_dlpack
from .draw import draw as draw
from .files import check_writable as check_writable
from .files import replacing as replacing
from .optional import require as require
