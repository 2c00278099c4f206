"""Speed-up by hand: equations 2 to 7 of the layer-wise paper, for synchronous, asynchronous and layer-wise training.

    (2)  S = t_ser / t_par,  E = S / P
    (3)  t_ser = I_ser(b) · T_calc(b)
    (4)  t_par = I_par(b, P)/P · max(T_calc(b), 2P·T_comm)          copies hidden under computing
    (5)  I_par ≈ I_ser
    (6)  S = P · T_calc / max(T_calc, 2P·T_comm)
    (7)  the best P: T_calc = 2P·T_comm

T_calc is the gradient of one minibatch, T_comm one model one way to or from the server, whose port all P workers
share. Synchronous training hides nothing: its copies come after computing, so (4) has a sum in place of the maximum.
Layer-wise training sends activations between neighbours; its slowest stage is its pace.
From: Parallel Training of Fully-connected DNN Using Layer-wise Model Partitioning.
"""

from __future__ import annotations

from collections.abc import Sequence

from tightwire.plan.errors import PlanError


def speedup(t_calc_s: float, t_comm_s: float, workers: int) -> float:
    """Equation 6, asynchronous training: copies hidden under computing.

    >>> round(speedup(0.1493, 0.0237, 4), 2)
    3.15
    """
    _check(t_calc_s, t_comm_s, workers)
    return workers * t_calc_s / max(t_calc_s, 2 * workers * t_comm_s)


def speedup_synchronous(t_calc_s: float, t_comm_s: float, workers: int) -> float:
    """Equation 4 with nothing hidden: S = P·T_calc / (T_calc + 2P·T_comm).

    >>> round(speedup_synchronous(0.1493, 0.0237, 4), 2)
    1.76
    """
    _check(t_calc_s, t_comm_s, workers)
    return workers * t_calc_s / (t_calc_s + 2 * workers * t_comm_s)


def speedup_layerwise(stages_s: Sequence[float], *, t_boundary_s: float = 0.0) -> float:
    """All stages together, over the slowest of them or of the boundaries between them.

    >>> speedup_layerwise([1.0, 2.0, 1.0])
    2.0
    """
    if not stages_s or min(stages_s) < 0 or max(stages_s) <= 0:
        raise PlanError(f"stages of {list(stages_s)} s: each takes 0 or more seconds, and some take time")
    return sum(stages_s) / max(*stages_s, t_boundary_s)


def best_workers(t_calc_s: float, t_comm_s: float) -> float:
    """Equation 7: more workers than this wait at the server's port.

    >>> round(best_workers(0.1493, 0.0237), 2)
    3.15
    """
    _check(t_calc_s, t_comm_s, 1)
    return t_calc_s / (2 * t_comm_s) if t_comm_s else float("inf")


def _check(t_calc_s: float, t_comm_s: float, workers: int) -> None:
    if not (t_calc_s > 0 and t_comm_s >= 0 and workers >= 1):
        raise PlanError(
            f"T_calc={t_calc_s} s, T_comm={t_comm_s} s, P={workers}: computing takes time, and P is at least 1"
        )
