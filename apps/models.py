"""Networks to train: the small one of train_cnn.py, and the course's ResNet9 and language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import needle as ndl
from needle import nn

SEQUENCE_MODELS: dict[str, Callable[..., nn.Module]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "transformer": nn.Transformer}


class ConvBN(nn.Sequential):
    """Conv, BatchNorm2d, ReLU."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        device: ndl.BackendDevice | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__(
            nn.Conv(in_channels, out_channels, kernel_size, stride, device=device, dtype=dtype),
            nn.BatchNorm2d(out_channels, device=device, dtype=dtype),
            nn.ReLU(),
        )


class SmallCNN(nn.Sequential):
    """Stages of two 3x3 convolutions of the given widths, the mean over what is left of the image, one linear layer.

    Between stages the image is halved: two of them take (N,C,H,W) images of any size from 2x2 up, three from 4x4.
    """

    def __init__(
        self,
        in_channels: int = 1,
        num_classes: int = 10,
        device: ndl.BackendDevice | None = None,
        dtype: str = "float32",
        widths: Sequence[int] = (32, 64),
    ) -> None:
        settings: dict[str, Any] = {"device": device, "dtype": dtype}
        layers: list[nn.Module] = []
        for width, before in zip(widths, (in_channels, *widths)):
            layers += [nn.MaxPool2d(2)] if layers else []
            layers += [ConvBN(before, width, 3, **settings), ConvBN(width, width, 3, **settings)]
        super().__init__(*layers, nn.GlobalAvgPool2d(), nn.Flatten(), nn.Linear(widths[-1], num_classes, **settings))


class ResNet9(nn.Sequential):
    """The course's residual network, for images of up to 32x32; 431,946 parameters with its defaults."""

    def __init__(
        self,
        device: ndl.BackendDevice | None = None,
        dtype: str = "float32",
        in_channels: int = 3,
        num_classes: int = 10,
    ) -> None:
        def conv_bn(in_channels: int, out_channels: int, kernel_size: int, stride: int) -> ConvBN:
            return ConvBN(in_channels, out_channels, kernel_size, stride, device, dtype)

        super().__init__(
            conv_bn(in_channels, 16, 7, 4),
            conv_bn(16, 32, 3, 2),
            nn.Residual(nn.Sequential(conv_bn(32, 32, 3, 1), conv_bn(32, 32, 3, 1))),
            conv_bn(32, 64, 3, 2),
            conv_bn(64, 128, 3, 2),
            nn.Residual(nn.Sequential(conv_bn(128, 128, 3, 1), conv_bn(128, 128, 3, 1))),
            nn.Flatten(),
            nn.Linear(128, 128, device=device, dtype=dtype),
            nn.ReLU(),
            nn.Linear(128, num_classes, device=device, dtype=dtype),
        )


class LanguageModel(nn.Module):
    """Predict the next word at each place: Embedding, a sequence model, Linear.

    Takes ids (seq, batch) and the state that the text before left, None at its beginning; gives logits
    (seq * batch, output_size) and the state: (num_layers, batch, hidden_size), for the LSTM a tuple of two such, for
    the transformer, which sees no text before, zeros.

    Args:
        output_size: how many words there are.
        hidden_size: of the recurrent layers, or of the transformer's small networks.
        seq_model: "rnn", "lstm" or "transformer".
        seq_len: the length of the longest piece of text that the transformer takes; the others take any.
        settings: for the sequence model, such as `dropout` for the transformer.

    Raises:
        OptionError: another seq_model.
    """

    def __init__(
        self,
        embedding_size: int,
        output_size: int,
        hidden_size: int,
        num_layers: int = 1,
        seq_model: str = "rnn",
        seq_len: int = 40,
        device: ndl.BackendDevice | None = None,
        dtype: str = "float32",
        **settings: Any,
    ) -> None:
        super().__init__()
        if seq_model not in SEQUENCE_MODELS:
            known = ", ".join(SEQUENCE_MODELS)
            raise ndl.OptionError(f"LanguageModel: seq_model must be one of {known}, got {seq_model!r}")
        settings |= {"device": device, "dtype": dtype}
        features = hidden_size
        if seq_model == "transformer":
            settings["sequence_len"] = seq_len
            features = embedding_size
        self.embedding = nn.Embedding(output_size, embedding_size, device=device, dtype=dtype)
        self.seq_model = SEQUENCE_MODELS[seq_model](embedding_size, hidden_size, num_layers, **settings)
        self.linear = nn.Linear(features, output_size, device=device, dtype=dtype)

    def forward(self, x: ndl.Tensor, h: Any = None) -> tuple[ndl.Tensor, Any]:
        features, h = self.seq_model(self.embedding(x), h)
        return self.linear(features.reshape((-1, features.shape[-1]))), h
