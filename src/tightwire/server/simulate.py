"""Many simulated worlds, one for each seed.

python -m tightwire.server.simulate --seeds 2000            the first that fails is printed, and how to see it again
python -m tightwire.server.simulate --seed 17 --trace       every message of one world
python -m tightwire.server.simulate --bug acknowledge-first a mistake made on purpose is found
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from tightwire.server.bugs import BUGS, Bug
from tightwire.server.simulated import World


def first_failure(seeds: Iterable[int], bug: Bug | None = None) -> tuple[int, str] | None:
    """The first seed whose world goes wrong, and how."""
    for seed in seeds:
        if (wrong := World(seed, bug).run()) is not None:
            return seed, wrong
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run worlds; 1 if one went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tightwire.server.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one world only")
    parser.add_argument("--bug", choices=sorted(BUGS), help="a mistake made on purpose")
    parser.add_argument("--trace", action="store_true", help="print every message")
    asked = parser.parse_args(arguments)
    bug = BUGS[asked.bug] if asked.bug else None
    if asked.seed is not None:
        wrong = World(asked.seed, bug, print if asked.trace else None).run()
        print(f"seed {asked.seed}: {wrong or 'nothing lost, nothing twice, nobody hangs'}")
        return int(wrong is not None)
    began_s = time.perf_counter()
    failure = first_failure(range(asked.first, asked.first + asked.seeds), bug)
    took_s = time.perf_counter() - began_s
    if failure is None:
        print(f"{asked.seeds:,} worlds in {took_s:.1f} s: nothing lost, nothing twice, nobody hangs")
        return 0
    again = f"--seed {failure[0]} --trace" + (f" --bug {asked.bug}" if asked.bug else "")
    print(f"seed {failure[0]}: {failure[1]}\nagain: python -m tightwire.server.simulate {again}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
