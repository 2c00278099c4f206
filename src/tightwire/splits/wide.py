"""A wide layer over several workers: its columns dealt out, and a softmax over all of them without the logits.

Worker r holds the rows W_r of an output layer's weight (columns of the logits). With h the activations, y the labels:

    z_r = h·W_rᵀ + b_r          M_r = max z_r      S_r = Σ exp(z_r − M_r)      t_r = z_r[y] if y is mine, else 0
    M = max_r M_r               L = log Σ_r S_r·exp(M_r − M) + M                loss = mean(L − Σ_r t_r)
    g_r = (exp(z_r − L) − 1[y]) / b       ∇W_r = g_rᵀ·h       ∂loss/∂h = Σ_r g_r·W_r

So three numbers a sample and worker are exchanged, and one partial sum of errors comes back from each. Between two
layers the same cut is a `column` of one and a `row` of the next:

    column   y_r = x·W_rᵀ                      every worker has x, each gets its own units
    row      y = Σ_r x_r·(W[:, mine])ᵀ + b     every worker has its own units, the sum is exchanged

Krizhevsky: One Weird Trick for Parallelizing Convolutional Neural Networks. arXiv 1404.5997; Shoeybi et al.:
Megatron-LM. arXiv 1909.08053.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from tightwire.algebra.errors import JoinError, UsageError

LINE = 16  # float32 in a cache line


def edges_of(columns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """From and to, for each worker.

    >>> edges_of((2, 0, 3))
    ((0, 2), (2, 2), (2, 5))
    """
    return tuple(pairwise([0, *accumulate(columns)]))


def check_columns(layer: nn.Module, columns: Sequence[int]) -> nn.Linear:
    """The layer, if it is a Linear with so many columns in all."""
    if not isinstance(layer, nn.Linear):
        raise JoinError(
            f"the last layer is a {type(layer).__name__}; only the columns of an nn.Linear can be dealt out: end the "
            "model with one, or use wide=0"
        )
    if sum(columns) != layer.out_features:
        raise JoinError(f"columns={tuple(columns)} are {sum(columns)} in all, and the last layer has "
                        f"{layer.out_features}; deal out just those")  # fmt: skip
    return layer


def share(parameter: Tensor, first: int, end: int) -> nn.Parameter:
    """Some rows of a parameter as one of its own, in the same memory."""
    return nn.Parameter(parameter.data[first:end], requires_grad=parameter.requires_grad)


def bias_of(layer: nn.Linear) -> nn.Parameter | None:
    """The bias, if there is one."""
    return layer._parameters["bias"]


def column(layer: nn.Linear, first: int, end: int) -> nn.Linear:
    """A Linear with some of the output units, in the memory of the whole.

    >>> whole = nn.Linear(3, 5); x = torch.ones(2, 3)
    >>> torch.allclose(column(whole, 1, 3)(x), whole(x)[:, 1:3])
    True
    """
    bias = bias_of(layer)
    part = nn.Linear(layer.in_features, end - first, bias=bias is not None, device="meta")
    part.weight = share(layer.weight, first, end)
    if bias is not None:
        part.bias = share(bias, first, end)
    return part


def row(layer: nn.Linear, first: int, end: int, *, with_bias: bool) -> nn.Linear:
    """A Linear from some of the input units, in the memory of the whole; one worker of all has the bias.

    >>> whole = nn.Linear(4, 2); x = torch.ones(3, 4)
    >>> parts = row(whole, 0, 1, with_bias=True)(x[:, :1]) + row(whole, 1, 4, with_bias=False)(x[:, 1:])
    >>> torch.allclose(parts, whole(x))
    True
    """
    bias = bias_of(layer) if with_bias else None
    part = nn.Linear(end - first, layer.out_features, bias=bias is not None, device="meta")
    part.weight = nn.Parameter(layer.weight.data[:, first:end], requires_grad=layer.weight.requires_grad)
    if bias is not None:
        part.bias = nn.Parameter(bias.data, requires_grad=bias.requires_grad)
    return part


@dataclass
class Logits:
    """One worker's part of a batch, between its forward and its backward pass."""

    given_BD: Tensor  # noqa: N815
    exp_BP: Tensor  # noqa: N815 -- exp(z − max), and 0 in the padding
    target_B: Tensor  # noqa: N815 -- relative to this worker's first column; outside of its columns if it is another's
    said_3B: Tensor  # noqa: N815 -- max, Σ exp(z − max), own target's logit


@torch.no_grad()
def forward_part(layer: nn.Linear, given_BD: Tensor, label_B: Tensor, first: int) -> Logits:
    """Logits of this worker's columns, and what the others must know of them."""
    if label_B.dim() != 1 or label_B.is_floating_point() or given_BD.dim() != 2:
        raise UsageError(
            f"a layer that is dealt out takes activations of 2 dimensions and one class a sample, not {given_BD.dim()} "
            f"dimensions and labels of {label_B.dtype} with {label_B.dim()}; use wide=0"
        )
    logits_BP = _padded_logits(layer, given_BD.to(layer.weight.dtype))
    target_B = label_B - first
    mine_B = (target_B >= 0) & (target_B < layer.out_features)
    own_B = logits_BP.gather(1, target_B.where(mine_B, 0)[:, None])[:, 0].where(mine_B, 0.0)
    most_B = logits_BP.amax(1)
    exp_BP = logits_BP.sub_(most_B[:, None]).exp_()
    return Logits(given_BD, exp_BP, target_B, torch.stack([most_B, exp_BP.sum(1), own_B]))


def _padded_logits(layer: nn.Linear, given_BD: Tensor) -> Tensor:
    """Logits with −∞ behind them up to a whole number of cache lines.

    Products whose rows begin anywhere are slower: with 10,217 columns by 1.4 on a CPU with AVX-512.
    """
    count = layer.out_features
    logits_BP = given_BD.new_empty(len(given_BD), -(-count // LINE) * LINE)
    logits_BP[:, count:] = -torch.inf
    bias = bias_of(layer)
    if bias is None:
        torch.mm(given_BD, layer.weight.T, out=logits_BP[:, :count])
    else:
        torch.addmm(bias, given_BD, layer.weight.T, out=logits_BP[:, :count])
    return logits_BP


def whole_sum(said_R3B: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The logarithm of the sum over all columns, and the loss of each sample, from what every worker said."""
    most_RB, sum_RB, own_RB = torch.stack(list(said_R3B)).unbind(1)
    most_B = most_RB.amax(0)
    log_B = (sum_RB * torch.exp(most_RB - most_B)).sum(0).log_().add_(most_B)
    return log_B, log_B - own_RB.sum(0)


@torch.no_grad()
def backward_part(layer: nn.Linear, part: Logits, log_B: Tensor, scale: float) -> Tensor:
    """Add this worker's gradients to its parameters; return its part of the error. The part is used up."""
    count, batch = layer.out_features, len(log_B)
    factor_B = torch.exp(part.said_3B[0] - log_B) * (scale / batch)
    grad_BC = part.exp_BP.mul_(factor_B[:, None])[:, :count]
    mine_B = ((part.target_B >= 0) & (part.target_B < count)).nonzero()[:, 0]
    grad_BC[mine_B, part.target_B[mine_B]] -= scale / batch
    _add_grad(layer.weight, grad_BC.T @ part.given_BD.to(grad_BC.dtype))
    bias = bias_of(layer)
    if bias is not None:
        _add_grad(bias, grad_BC.sum(0))
    return (grad_BC @ layer.weight).to(part.given_BD.dtype)


def _add_grad(parameter: Tensor, gradient: Tensor) -> None:
    if parameter.requires_grad:
        parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
