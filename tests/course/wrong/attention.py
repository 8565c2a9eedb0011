"""Typical wrong solutions of the assignment `attention`: what is edited, the check that fails, the hint."""

WRONG = [
    (
        "total = ndl.logsumexp(x, (x.ndim - 1,)).reshape((*x.shape[:-1], 1))",
        "total = ndl.logsumexp(x, (1,)).reshape((x.shape[0], 1, *x.shape[2:]))",
        "softmax",
        "over axis 1",
    ),
    (
        "total = ndl.logsumexp(x, (x.ndim - 1,)).reshape((*x.shape[:-1], 1))",
        "total = ndl.logsumexp(x)",
        "softmax",
        "over all axes",
    ),
    ("return ndl.exp(x - total)", "return ndl.exp(x)", "softmax", "not divided by its sum"),
    ("return ndl.exp(x - total)", "return x - total", "softmax", "logarithm of the softmax"),
    ("return ndl.exp(x - total)", "return ndl.exp(x) / ndl.exp(total)", "softmax of large values", "exp overflows"),
    (
        "np.triu(np.full((queries, keys), -1e9), 1)",
        "np.tril(np.full((queries, keys), -1e9), -1)",
        "causal_mask",
        "upside down",
    ),
    (
        "np.triu(np.full((queries, keys), -1e9), 1)",
        "np.triu(np.full((queries, keys), -1e9))",
        "causal_mask",
        "sees itself",
    ),
    (
        "np.triu(np.full((queries, keys), -1e9), 1)",
        "np.tril(np.ones((queries, keys)))",
        "causal_mask",
        "added to scores",
    ),
    (" / q.shape[-1] ** 0.5", "", "attention", "not divided by sqrt"),
    ("q.shape[-1] ** 0.5", "q.shape[-1]", "attention", "not by dim"),
    ("q.shape[-1] ** 0.5", "q.shape[-2] ** 0.5", "attention", "length of the sequence"),
    (
        "probabilities = softmax(scores)",
        "probabilities = ndl.transpose(softmax(ndl.transpose(scores)))",
        "attention",
        "wrong axis",
    ),
    ("probabilities = softmax(scores)", "probabilities = scores", "attention", "softmax of the scores is missing"),
    ("return probabilities @ v,", "return probabilities @ k,", "attention", "keys are averaged"),
    ("return probabilities @ v,", "return probabilities @ v.detach(),", "attention", "The graph ends there"),
    ("if causal:", "if True:", "attention", "for causal=True only"),
    ("if causal:", "if False:", "attention, causal", "causal mask is missing"),
    (
        (
            "    if causal:\n"
            "        scores = scores + ndl.Tensor(causal_mask(*scores.shape[-2:]), dtype=q.dtype, "
            "requires_grad=False)\n"
            "    probabilities = softmax(scores)\n"
        ),
        (
            "    probabilities = softmax(scores)\n"
            "    if causal:\n"
            "        mask = causal_mask(*scores.shape[-2:]) == 0\n"
            "        probabilities = probabilities * ndl.Tensor(mask, dtype=q.dtype, "
            "requires_grad=False)\n"
        ),
        "attention, causal",
        "after the softmax",
    ),
    (
        "return probabilities @ v, probabilities",
        "return probabilities @ v, scores",
        "attention: the probabilities",
        "These are the scores",
    ),
    (
        "ndl.permute(x.reshape((n, t, num_head, features // num_head)), (0, 2, 1, 3))",
        "x.reshape((n, num_head, t, features // num_head))",
        "split_heads",
        "mere reshape",
    ),
    (
        "ndl.permute(x.reshape((n, t, num_head, features // num_head)), (0, 2, 1, 3))",
        "x.reshape((n, t, num_head, features // num_head))",
        "split_heads",
        "heads come before the places",
    ),
    (
        "ndl.permute(x.reshape((n, t, num_head, features // num_head)), (0, 2, 1, 3))",
        "ndl.permute(x.reshape((n, t, features // num_head, num_head)), (0, 3, 1, 2))",
        "split_heads",
        "in one piece",
    ),
    ("ndl.permute(x, (0, 2, 1, 3)).reshape", "x.reshape", "merge_heads", "mere reshape"),
    ("causal=True)", "causal=False)", "AttentionLayer", "layer is causal"),
    ("x = self.norm(x)", "", "AttentionLayer", "not normalised"),
    ("attention(q, k, v, causal=True)", "attention(k, q, v, causal=True)", "AttentionLayer", "swapped"),
    ("self.v_projection(x), self", "self.k_projection(x), self", "AttentionLayer", "use v_projection"),
    ("return self.out_projection", "return x + self.out_projection", "AttentionLayer", ""),
    ("x = x + self.attention(x)", "x = self.attention(x)", "TransformerLayer", "first residual"),
    ("return x + self.linear2", "return self.linear2", "TransformerLayer", "not added to what the second half"),
    (
        "x = x + self.attention(x)\n        return x + self.linear2",
        "return x + self.attention(x) + self.linear2",
        "TransformerLayer",
        "result of the first",
    ),
    ("self.linear1(self.norm(x))", "self.linear1(x)", "TransformerLayer", "norm before linear1 is missing"),
    ("ndl.relu(self.linear1(self.norm(x)))", "self.linear1(self.norm(x))", "TransformerLayer", "ReLU between"),
    (
        "return x + self.linear2(ndl.relu(self.linear1(self.norm(x))))",
        "return self.norm(x + self.linear2(ndl.relu(self.linear1(x))))",
        "TransformerLayer",
        "norm comes first",
    ),
]
