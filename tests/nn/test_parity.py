"""Layers against PyTorch's: value, gradient of the input, gradients of the parameters."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from tests.tolerances import assert_close

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

HWIO_TO_OIHW, HWOI_TO_IOHW = (3, 2, 0, 1), (3, 2, 0, 1)

ROWS = [  # ours, PyTorch's, input shape, how our weight lies in PyTorch's
    (nn.Linear(4, 3), torch.nn.Linear(4, 3), (5, 4), (1, 0)),
    (nn.Conv(4, 6, 3, stride=2), torch.nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 7, 6), HWIO_TO_OIHW),
    (nn.Conv(4, 6, (2, 3), padding=(1, 2), dilation=(1, 2), groups=2),
     torch.nn.Conv2d(4, 6, (2, 3), padding=(1, 2), dilation=(1, 2), groups=2), (2, 4, 7, 6), HWIO_TO_OIHW),
    (nn.Conv(4, 4, 3, groups=4, bias=False), torch.nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False),
     (2, 4, 5, 5), HWIO_TO_OIHW),
    (nn.ConvTranspose(4, 6, 3, stride=2, padding=1, output_padding=1),
     torch.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5, 4), HWOI_TO_IOHW),
    (nn.ConvTranspose(4, 6, (2, 3), stride=(2, 1), dilation=2, groups=2),
     torch.nn.ConvTranspose2d(4, 6, (2, 3), stride=(2, 1), dilation=2, groups=2), (2, 4, 5, 4), HWOI_TO_IOHW),
    (nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
     torch.nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (2, 3, 8, 6), None),
    (nn.AvgPool2d((2, 3), padding=1, count_include_pad=False),
     torch.nn.AvgPool2d((2, 3), padding=1, count_include_pad=False), (2, 3, 8, 6), None),
    (nn.GlobalAvgPool2d(), torch.nn.AdaptiveAvgPool2d(1), (2, 3, 4, 5), None),
    (nn.BatchNorm1d(3, unbiased=True), torch.nn.BatchNorm1d(3), (6, 3), (0,)),
    (nn.BatchNorm2d(3, eps=1e-3, momentum=0.3, unbiased=True), torch.nn.BatchNorm2d(3, eps=1e-3, momentum=0.3),
     (2, 3, 4, 5), (0,)),
    (nn.LayerNorm1d(4), torch.nn.LayerNorm(4), (2, 3, 4), (0,)),
    (nn.GroupNorm(2, 4), torch.nn.GroupNorm(2, 4), (3, 4, 2, 2), (0,)),
    (nn.LeakyReLU(0.2), torch.nn.LeakyReLU(0.2), (4, 3), None),
    (nn.ELU(0.7), torch.nn.ELU(0.7), (4, 3), None),
    (nn.GELU(), torch.nn.GELU(), (4, 3), None),
    (nn.GELU("tanh"), torch.nn.GELU("tanh"), (4, 3), None),
    (nn.SiLU(), torch.nn.SiLU(), (4, 3), None),
    (nn.Softplus(), torch.nn.Softplus(threshold=100), (4, 3), None),
    (nn.Softmax(0), torch.nn.Softmax(0), (4, 3), None),
]  # fmt: skip


def pairs(ours, theirs, order):
    """Our parameters beside PyTorch's, and how to lay one out like the other."""
    for name, p in theirs.named_parameters():
        own = getattr(ours, name)
        yield own, p, (lambda a: a.transpose(order)) if name == "weight" else (lambda a, p=p: a.reshape(tuple(p.shape)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row[0]))
def test_layer(device, row):
    ours, theirs, shape, order = row
    ours, theirs = ours.to(device, "float64"), theirs.double()
    for own, p, like_theirs in pairs(ours, theirs, order):
        p.data = torch.tensor(like_theirs(own.numpy()).copy())
    for training in (True, True, False):
        ours.train(training), theirs.train(training)
        x = np.random.randn(*shape)
        a, b = ndl.Tensor(x, device=device, dtype="float64"), torch.tensor(x, requires_grad=True)
        y, z = ours(a), theirs(b)
        weights = np.random.randn(*y.shape)
        y.backward(ndl.Tensor(weights, device=device, dtype="float64"))
        theirs.zero_grad()
        z.backward(torch.tensor(weights))
        assert_close(y, z.detach().numpy())
        assert_close(a.grad, b.grad.numpy())
        for own, p, like_theirs in pairs(ours, theirs, order):
            assert_close(like_theirs(own.grad.numpy()), p.grad.numpy())
        for name in ("running_mean", "running_var"):
            if hasattr(theirs, name):
                assert_close(getattr(ours, name), getattr(theirs, name).numpy())


@pytest.mark.parametrize(
    "options", [{}, {"label_smoothing": 0.1}, {"ignore_index": 1}, {"reduction": "sum"}, {"weight": [1.0, 2.0, 0.5]}]
)
def test_cross_entropy_loss(options):
    logits, labels = np.random.randn(5, 3), np.array([0, 2, 1, 1, 2])
    theirs = torch.nn.CrossEntropyLoss(
        **{k: torch.tensor(v).double() if k == "weight" else v for k, v in options.items()}
    )
    a, b = ndl.Tensor(logits, dtype="float64"), torch.tensor(logits, requires_grad=True)
    ours = nn.CrossEntropyLoss(**options).to(dtype="float64")(a, ndl.Tensor(labels))
    ours.backward()
    expected = theirs(b, torch.tensor(labels))
    expected.backward()
    assert_close(ours, expected.detach().numpy())
    assert_close(a.grad, b.grad.numpy())
