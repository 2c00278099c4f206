"""A process that keeps places in chains: a desk for each shard, a courier to the others, and a clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tightwire.links.courier import Calls, Courier
from tightwire.run.chain_desk import ChainDesk
from tightwire.server.chain import Copied, Member
from tightwire.server.chainform import ChainForm
from tightwire.server.replica import Replica

TICK_S = 0.1
_ABANDONED_S = 900.0


class ChainServer:
    """The desks of one server. ``life`` is larger than in any earlier life of a server of this name."""

    def __init__(self, name: str, life: int, connect: Callable[[str], Calls], *, room: str = "") -> None:
        self.name = name
        self.desks: dict[str, ChainDesk] = {}
        self.life = life
        self.room = room
        self._courier = Courier(connect)
        self._form = ChainForm()
        self._closed = threading.Event()

    def keep(self, shard: str) -> ChainDesk:
        """Have an empty place in the chain of a shard."""
        replica = Replica(shard, Member(self.name, self.life), self._form.copy, self._form.revive)
        self.desks[shard] = ChainDesk(replica, self._courier, room=self.room)
        return self.desks[shard]

    def found(self, shard: str, copied: Copied) -> Member:
        """Be the first to have a shard."""
        replica = self.desks[shard].replica
        replica.found(self._form.revive(copied))
        return replica.me

    def start(self) -> None:
        """Let time pass."""
        threading.Thread(target=self._run, name=f"clock of {self.name}", daemon=True).start()

    @property
    def idle(self) -> bool:
        """Whether all desks were closed."""
        return all(desk.closed for desk in self.desks.values())

    def close(self) -> None:
        """Stop at once."""
        self._closed.set()
        for desk in self.desks.values():
            desk.close()
        self._courier.close()

    def _run(self) -> None:
        while not self._closed.wait(TICK_S):
            for desk in list(self.desks.values()):
                desk.tick()
                if time.monotonic() - desk.heard_s > _ABANDONED_S:
                    desk.close()  # its run is over, and nobody could say so
