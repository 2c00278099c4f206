"""How a run is started: in this process, as processes of this machine, in the lab, or by torchrun.

`config.py` says what to train, `script.py` is the training script that every worker runs, `outcome.py` what it leaves
behind; `local.py`, `labbed.py` and `inside.py` start workers, `start.py` chooses among them.
"""
