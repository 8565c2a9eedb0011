"""What simple_ml.py has beyond the interface; tests/interface has the rest."""

import numpy as np
import pytest
import simple_ml

import needle as ndl
from needle import nn
from needle.data import batchify


class Counting(nn.Module):
    """A language model whose state counts its calls; it notes what it is handed."""

    def __init__(self, pair):
        super().__init__()
        self.scores = nn.Parameter(np.zeros((1, 5)))
        self.pair, self.seen = pair, []

    def forward(self, x, h=None):
        self.seen.append(h)
        count = ndl.init.zeros(1) if h is None else h[0] if self.pair else h
        state = (count + 1) * (self.scores.sum() + 1)
        logits = self.scores.broadcast_to((x.size, 5))
        return logits, (state, state * 2) if self.pair else state


@pytest.mark.parametrize("pair", [False, True])
def test_a_state_is_carried_without_its_graph(pair):
    model = Counting(pair)
    forward = simple_ml.carrying_state(model)
    for _ in range(3):
        assert forward(ndl.init.zeros(2, 3)).shape == (6, 5)
    first, *later = model.seen
    assert first is None
    for calls, state in enumerate(later, start=1):
        for part, factor in zip(state if pair else [state], (1, 2)):
            assert part.is_leaf() and not part.requires_grad and part.numpy().tolist() == [calls * factor]


def test_each_epoch_begins_without_a_state():
    model, data = Counting(pair=False), batchify(np.arange(10) % 5, 2)
    for _ in range(2):
        simple_ml.evaluate_ptb(model, data, seq_len=2)
    assert [None if h is None else h.item() for h in model.seen] == [None, 1, None, 1]


def test_training_keeps_no_graphs():
    model = Counting(pair=True)

    def alive(words):
        simple_ml.train_ptb(model, batchify(np.arange(words) % 5, 2), seq_len=2, lr=0.1)
        model.seen.clear()
        return ndl.autograd.TENSOR_COUNTER

    assert alive(words=20) == alive(words=200)
