"""Initial values of tensors, drawn from NumPy's global legacy generator: `numpy.random.seed` fixes them all."""

from .basic import constant as constant
from .basic import manual_seed as manual_seed
from .basic import one_hot as one_hot
from .basic import ones as ones
from .basic import ones_like as ones_like
from .basic import rand as rand
from .basic import randb as randb
from .basic import randn as randn
from .basic import zeros as zeros
from .basic import zeros_like as zeros_like
from .initializers import kaiming_normal as kaiming_normal
from .initializers import kaiming_uniform as kaiming_uniform
from .initializers import xavier_normal as xavier_normal
from .initializers import xavier_uniform as xavier_uniform
