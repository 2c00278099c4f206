"""Real hosts, real rates, on one machine: network namespaces joined by a bridge, shaped by the kernel.

    with Lab(4, "1gbit") as lab:
        status = run_everywhere(lab, ["python", "train.py"])

`namespaces.py` builds and removes, `hosts.py` starts processes, `counters.py` reads the kernel's byte counters,
`available.py` says why a machine cannot do it. Nothing here imports torch, or touches the machine's own network.
"""

from tightwire.lab.available import why_no_latency, why_not
from tightwire.lab.counters import Counters, own_counters
from tightwire.lab.errors import LabError, RateError
from tightwire.lab.hosts import Host, run_everywhere
from tightwire.lab.leftovers import clean_leftovers
from tightwire.lab.namespaces import Lab
from tightwire.lab.rate import LinkRate, parse_rate

__all__ = [
    "Counters",
    "Host",
    "Lab",
    "LabError",
    "LinkRate",
    "RateError",
    "clean_leftovers",
    "own_counters",
    "parse_rate",
    "run_everywhere",
    "why_no_latency",
    "why_not",
]
