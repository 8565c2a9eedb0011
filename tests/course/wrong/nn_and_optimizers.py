"""Typical wrong solutions of the assignment `nn_and_optimizers`: what is edited, the check that fails, the hint."""

WRONG = [
    (
        "nn.Parameter(init.kaiming_uniform(in_features, out_features))",
        "init.kaiming_uniform(in_features, out_features)",
        "Linear: what it makes",
        "wrapped in nn.Parameter",
    ),
    (
        "(init.kaiming_uniform(in_features, out_features)",
        "(init.kaiming_uniform(out_features, in_features)",
        "Linear: what it makes",
        "in that order",
    ),
    (
        "kaiming_uniform(out_features, 1).reshape((1, out_features))",
        "kaiming_uniform(out_features, 1)",
        "Linear: what it makes",
        "reshape it",
    ),
    ("x @ self.weight + self.bias", "x @ self.weight", "Linear: forward", "bias is not added"),
    ("(centred**2).mean((1,))", "((centred**2).sum((1,)) / (self.dim - 1))", "LayerNorm1d", "divided by N - 1"),
    (
        "(variance + self.eps) ** 0.5 + self.bias\n        ### END SOLUTION\n\n\nclass BatchNorm1d",
        "(variance**0.5 + self.eps) + self.bias\n\n\nclass BatchNorm1d",
        "LayerNorm1d",
        "eps is added to the root",
    ),
    (
        (
            "x - x.mean((1,)).reshape((x.shape[0], 1))\n"
            "        variance = (centred**2).mean((1,)).reshape((x.shape[0], 1))"
        ),
        "x - x.mean((0,))\n        variance = (centred**2).mean((0,))",
        "LayerNorm1d",
        "take each row, over axis 1",
    ),
    (
        "((x - mean) ** 2).mean((0,))",
        "((x - mean) ** 2).sum((0,)) / (len(x) - 1)",
        "BatchNorm1d in training",
        "divided by N - 1",
    ),
    (
        "self.weight * (x - mean) / (variance + self.eps) ** 0.5 + self.bias",
        "(x - mean) / (variance + self.eps) ** 0.5",
        "BatchNorm1d in training",
        "weight and bias are not used",
    ),
    (
        "(x - mean) / (variance + self.eps) ** 0.5",
        "(x - mean)",
        "BatchNorm1d in training",
        "division by the deviation is missing",
    ),
    (
        "(x - mean) / (variance + self.eps) ** 0.5",
        "(x - mean) / variance**0.5",
        "BatchNorm1d in training",
        "eps is not added",
    ),
    (
        "mean = x.mean((0,))",
        "mean = x.mean((0,)).detach()",
        "BatchNorm1d in training",
        "a term that sums over that axis is missing",
    ),
    (
        "(1 - m) * self.running_mean + m * mean",
        "m * self.running_mean + (1 - m) * mean",
        "BatchNorm1d: running statistics, and evaluation",
        "momentum is at the wrong place",
    ),
    ("m * mean.detach()", "m * mean", "BatchNorm1d: running statistics, and evaluation", "graphs of all batches alive"),
    (
        "m * variance.detach()",
        "m * variance.detach() * (len(x) / (len(x) - 1))",
        "BatchNorm1d: running statistics, and evaluation",
        "running variance is of that divided by N - 1",
    ),
    (
        "if self.training:\n            mean",
        "if True:\n            mean",
        "BatchNorm1d: running statistics, and evaluation",
        "not those of the batch",
    ),
    (
        "self.running_mean = init.zeros(dim)",
        "self.running_mean = nn.Parameter(init.zeros(dim))",
        "BatchNorm1d: running statistics, and evaluation",
        "",
    ),
    ("p=1 - self.p, dtype=x.dtype) / (1 - self.p)", "p=1 - self.p, dtype=x.dtype)", "Dropout", "not scaled"),
    ("p=1 - self.p, dtype", "p=self.p, dtype", "Dropout", "keep with 1 - p"),
    ("/ (1 - self.p)", "/ self.p", "Dropout", "not 1 / p"),
    ("if not self.training:", "if False:", "Dropout", "In evaluation nothing is dropped"),
    (".sum() / n", ".sum()", "SoftmaxLoss", "not the sum"),
    (".sum() / n", ".sum() / classes", "SoftmaxLoss", "number of classes"),
    ("(ndl.logsumexp(logits, (1,)) - right)", "(right - ndl.logsumexp(logits, (1,)))", "SoftmaxLoss", "sign is turned"),
    ("(1 - self.momentum) * g", "g", "SGD", "as in PyTorch"),
    (
        " + self.weight_decay * p.cached_data\n            self.u",
        "\n            self.u",
        "SGD",
        "not added to the gradient",
    ),
    ("p.cached_data - self.lr * self.u[p]", "p.cached_data + self.lr * self.u[p]", "SGD", "uphill"),
    ("self.momentum * self.u.get(p, 0.0)", "0.0", "SGD", "not kept"),
    (
        "self.u[p] = self.momentum * self.u.get(p, 0.0) + (1 - self.momentum) * g",
        "self.u[p] = g",
        "SGD",
        "momentum is not used",
    ),
    (
        "g = p.grad.cached_data + self.weight_decay * p.cached_data\n            self.u",
        "g = p.grad.cached_data = p.grad.cached_data + self.weight_decay * p.cached_data\n            self.u",
        "SGD",
        "changes the gradient",
    ),
    (
        (
            "            if p.grad is None:\n"
            "                continue\n"
            "            g = p.grad.cached_data + self.weight_decay * p.cached_data\n"
            "            self.u"
        ),
        "            g = p.grad.cached_data + self.weight_decay * p.cached_data\n            self.u",
        "SGD",
        "",
    ),
    (
        "m = self.m[p] / (1 - self.beta1**self.t)\n            v = self.v[p] / (1 - self.beta2**self.t)",
        "m, v = self.m[p], self.v[p]",
        "Adam",
        "bias correction is missing",
    ),
    ("(v**0.5 + self.eps)", "(v + self.eps) ** 0.5", "Adam", "eps is under the root"),
    (("self.beta2) * g**2\n            m"), ("self.beta2) * g\n            m"), "Adam", "g is not squared"),
    ("self.t += 1", "self.t = 1", "Adam", "t stays 1"),
]
