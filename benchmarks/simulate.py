"""How fast the simulator is: 4096 asynchronous workers, a million worker-steps in all, on one core.

python -m benchmarks.simulate [--workers 4096] [--steps 245]
"""

from __future__ import annotations

import argparse
import time

from benchmarks.harness import write
from tightwire.plan.cluster import flat, parse_link
from tightwire.plan.delays import Lognormal
from tightwire.plan.made import made_profile
from tightwire.plan.simulate import simulate
from tightwire.recipes.catalogue import by_name

SIGMA, LINK = 0.3, "10gbit,50us"


def main() -> None:
    """Simulate and write how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=245, help="of each worker, on average")
    asked = parser.parse_args()
    profile = made_profile({"w": (1000, 1000)}, forward_s=0.1, backward_s=0.2, batch=32)
    wall, core = time.perf_counter(), time.process_time()
    trace = simulate(
        by_name("asgd"), profile, flat(parse_link(LINK)), asked.workers, steps=asked.steps, delays=Lognormal(SIGMA),
        most_spans=1000,
    )  # fmt: skip
    wall, core = time.perf_counter() - wall, time.process_time() - core
    write(
        "simulate",
        {
            "recipe": "asgd", "workers": asked.workers, "worker_steps": len(trace.step_s), "link": LINK,
            "sigma": SIGMA, "seconds": wall, "core_seconds": core, "simulated_seconds": trace.seconds,
            "mean_staleness": trace.mean_staleness, "utilisation": trace.utilisation,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
