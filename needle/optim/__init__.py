"""Optimizers, schedules of their learning rates, and gradient clipping."""

from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .clip import clip_grad_norm as clip_grad_norm
from .optimizer import Optimizer as Optimizer
from .schedule import CosineAnnealingLR as CosineAnnealingLR
from .schedule import ExponentialLR as ExponentialLR
from .schedule import LinearLR as LinearLR
from .schedule import LRScheduler as LRScheduler
from .schedule import MultiStepLR as MultiStepLR
from .schedule import OneCycleLR as OneCycleLR
from .schedule import SequentialLR as SequentialLR
from .schedule import StepLR as StepLR
from .sgd import SGD as SGD
