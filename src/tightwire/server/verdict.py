"""What must hold in a simulated world once its faults have ended, whatever happened before.

lost     every acknowledged contribution is in every copy
twice    no contribution is in a copy more than once
hang     every worker has been answered, every chain has its copies again, and is led by whom it should be
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tightwire.server.simulated import World


def settled(world: World) -> bool:
    """Whether all work is done and every chain has its copies again."""
    if any(worker.asks is not None or worker.begun < world.share for worker in world.workers):
        return False
    able = sum(process.runs and name not in world.views.leaving for name, process in world.processes.items())
    for shard, view in world.views.views.items():
        copies = [world.processes[member.server].replicas[shard] for member in view.chain]
        if len(copies) != min(world.views.replicas, able) or any(copy.view != view for copy in copies):
            return False
        if len({copy.index for copy in copies} | {copy.acknowledged for copy in copies}) != 1:
            return False
        if view.chain[0].server != world.views.wanted[shard][0]:
            return False
    return True


def wrong(world: World) -> str | None:
    """What was lost or applied twice, if anything."""
    for shard, view in world.views.views.items():
        told = [mark for worker in world.workers if worker.shard == shard for mark in worker.acknowledged]
        for member in view.chain:
            replica = world.processes[member.server].replicas[shard]
            if replica.machine is None or replica.me != member:
                continue
            times = world.workloads[shard].applied(replica.machine.machine)
            if lost := [mark for mark in told if times.get(mark, 0) == 0]:
                return f"lost: {lost[0]} was acknowledged and is not on {member.server}"
            if twice := [mark for mark, count in times.items() if count > 1]:
                return f"twice: {twice[0]} was applied {times[twice[0]]} times on {member.server}"
    return None


def who_waits(world: World) -> str:
    """Where everybody was when time was over."""
    waiting = [str(worker.number) for worker in world.workers if worker.asks is not None]
    chains = [f"{view.shard} in view {view.number} of {len(view.chain)}" for view in world.views.views.values()]
    return f"workers {', '.join(waiting) or 'none'} wait after {world.now_ms:.0f} ms; {', '.join(chains)}"
