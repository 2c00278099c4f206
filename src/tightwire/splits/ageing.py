"""What to do about gradients that are old when they are applied: smaller steps, weights foretold, momentum paid out.

    discount    η_s = η / (1 + d_s)^p, with d_s the delay of stage s and p = ½
    predict     ŵ = w − d_s·η·v: the forward pass sees weights where momentum v will have carried them by then
    spike       w ← w − η·(a·v + b·g), a = m^d, b = (1 − m^d)/(1 − m): what momentum m would have made of a gradient g
                while it was under way is applied at once
    both        predict and spike

Discounts by age: Zhang, Gupta, Lian, Liu: Staleness-Aware Async-SGD. IJCAI 2016, arXiv 1511.05950; for pipelines Yang
et al.: PipeMare. MLSys 2021, arXiv 1910.05124, who take p = 1 and let it fall to 0. Prediction: Chen, Yang, Cheng:
SpecTrain: Efficient and Robust Parallel DNN Training through Model Parallelism on Multi-GPU Platform. arXiv
1809.02839. Spikes, and both: Kosson, Chiley, Venigalla, Hestness, Köster: Pipelined Backpropagation at Scale. MLSys
2021, arXiv 2003.11666.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

POWER = 0.5


def discount(delay: int) -> float:
    """The factor on the step of a stage.

    >>> [round(discount(delay), 3) for delay in (0, 3, 8)]
    [1.0, 0.5, 0.333]
    """
    return float((1 + delay) ** -POWER)


@torch.no_grad()
def shrink_(parameters: Iterable[nn.Parameter], delay: int) -> None:
    """Gradients times the discount: for plain SGD, with or without momentum, that is the learning rate's."""
    found = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if found and delay:
        torch._foreach_mul_(found, discount(delay))


@torch.no_grad()
def foretold(parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer, delay: int) -> list[Tensor] | None:
    """Where SGD's momentum will have carried the weights after ``delay`` steps; None where nobody can say.

    >>> weight = nn.Parameter(torch.ones(1)); sgd = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    >>> weight.grad = torch.ones(1); sgd.step(); foretold([weight], sgd, 2)
    [tensor([0.7000])]
    """
    rates = {parameter: float(group["lr"]) for group in optimizer.param_groups for parameter in group["params"]}
    values, moved = [], False
    for parameter in parameters:
        velocity = optimizer.state[parameter].get("momentum_buffer") if parameter in optimizer.state else None
        if velocity is None or not delay:
            values.append(parameter.detach().clone())
        else:
            values.append(parameter.detach().sub(velocity, alpha=delay * rates[parameter]))
            moved = True
    return values if moved else None


@torch.no_grad()
def pay_out_(
    parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None], optimizer: torch.optim.Optimizer, delay: int
) -> None:
    """After SGD's step −η·v: make it −η·(a·v + b·g). Without momentum, or without delay, nothing changes.

    >>> weight = nn.Parameter(torch.zeros(1)); sgd = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
    >>> weight.grad = torch.ones(1); sgd.step(); pay_out_([weight], [weight.grad], sgd, 1); weight.data
    tensor([-1.5000])
    """
    groups = {parameter: group for group in optimizer.param_groups for parameter in group["params"]}
    for parameter, gradient in zip(parameters, gradients, strict=True):
        group = groups[parameter]
        momentum, rate = float(group["momentum"]), float(group["lr"])
        velocity = optimizer.state[parameter].get("momentum_buffer") if parameter in optimizer.state else None
        if gradient is None or velocity is None or not delay or not momentum:
            continue
        kept = momentum**delay
        parameter.add_(velocity, alpha=rate * (1 - kept))
        parameter.sub_(gradient, alpha=rate * (1 - kept) / (1 - momentum))
