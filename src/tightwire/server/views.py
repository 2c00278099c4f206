"""Who is in which chain: decided in one place, by a state machine without I/O.

    not heard of for ``patience_s``      ─▶ left out, as long as somebody stays who has everything
    a spare, and the chain is too short  ─▶ becomes the tail, and catches up there
    caught up, and the chain too long    ─▶ whoever should not be in it is left out
    all have everything                  ─▶ whoever should lead becomes the head (`server.placing`)

Every change is a view with the next number; servers obey only the newest they know, and a chain acknowledges only what
all its members hold, so two heads cannot both succeed. A view stands once its head has said that it knows it: before
that nothing happens in it, and another may be decided from those of the last one that stood.

What is tolerated: with r copies, r − 1 servers of a chain may lose their memory before a new one has caught up; any
number may be slow, stopped or cut off for a time. While nobody is heard who has everything, nothing is decided; once
all of those are known to have ended, or to have been started anew, workers are told that the shard is lost. This
machine itself is not replicated: it lives where the run's rendezvous lives, without which there is no run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tightwire.server.chain import Beat, Buried, Go, Lost, Member, View, Where
from tightwire.server.placing import rebalance
from tightwire.server.replica import NOBODY, Effects


@dataclass
class Views:
    """All chains of a run."""

    replicas: int
    patience_s: float
    views: dict[str, View] = field(default_factory=dict)
    final: dict[str, View] = field(default_factory=dict)  # the last view of each shard that stands
    sound: dict[str, set[Member]] = field(default_factory=dict)  # have everything that was ever acknowledged
    heard_s: dict[str, dict[Member, float]] = field(default_factory=dict)  # by shard: when each life was last heard
    buried: dict[tuple[str, str], int] = field(default_factory=dict)  # by shard and server: the last life left out
    ended: set[Member] = field(default_factory=set)  # lives that are over, as somebody saw who went there
    leaving: set[str] = field(default_factory=set)  # servers that should keep nothing any more
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _lost_s: dict[str, float] = field(default_factory=dict)  # by shard: since when nobody has it, as far as is known
    _known: frozenset[Member] = frozenset()  # those for which ``wanted`` was worked out

    def found(self, shard: str, member: Member, now_s: float) -> View:
        """The first view of a shard: one server, which was given the machine."""
        self.views[shard] = self.final[shard] = View(shard, 1, (member,))
        self.sound[shard] = {member}
        self.heard_s.setdefault(shard, {})[member] = now_s
        self._known = frozenset()
        return self.views[shard]

    def handle(self, message: Any, now_s: float) -> Effects:
        """React to one message."""
        match message:
            case Beat():
                return self._beat(message, now_s)
            case Where(worker, shard):
                lost = now_s - self._lost_s.get(shard, now_s) > self.patience_s
                return [(worker, Lost(shard) if lost else self.views.get(shard, NOBODY))]
        raise AssertionError(f"the views were told {message!r}")

    def end(self, server: str) -> None:
        """Nobody is there any more where it was, unless it is heard again."""
        self.ended |= {member for sound in self.sound.values() for member in sound if member.server == server}

    def tick(self, now_s: float) -> Effects:
        """Look who lives, and change the views that need it; their members are told."""
        effects: Effects = []
        alive = {shard: self._alive(shard, now_s) for shard in self.views}
        self._place(alive)
        for shard in list(self.views):
            if self._is_over(shard):
                self._lost_s.setdefault(shard, now_s)
            elif self._lost_s:
                self._lost_s.pop(shard, None)  # one of the chain has said by now that it has caught up
            if (chain := self._next(shard, alive[shard])) is not None:
                effects += self._decide(shard, chain)
        return effects

    # ── who lives ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _beat(self, beat: Beat, now_s: float) -> Effects:
        shard, member = beat.shard, beat.member
        if member.life <= self.buried.get((shard, member.server), -1):
            return [(member.server, Buried(shard, member))]
        heard = self.heard_s.setdefault(shard, {})
        for other in [m for m in heard if m.server == member.server]:
            if other.life > member.life:
                return []  # late words of an earlier life
            if other.life < member.life:
                del heard[other]
        heard[member] = now_s
        self.ended.discard(member)
        if shard not in self.views and beat.view == 0 and beat.caught_up:  # it was given the machine, and nobody else
            self.found(shard, member, now_s)
        view = self.views.get(shard, NOBODY)
        if beat.caught_up and beat.stands and member in view.chain:
            self.sound[shard].update(view.chain[: view.chain.index(member) + 1])  # it has no more than those before it
        if beat.view < view.number:
            return [(member.server, view)]
        if beat.stands or member not in view.chain:
            return []
        if view.chain[0] == member and self.final[shard] != view:
            return self._settle(view)
        return [(member.server, Go(shard, view.number))] if self.final[shard] == view else []

    def _settle(self, view: View) -> Effects:
        """The head knows the view: it stands, and whoever is not in it is left out for good."""
        for member in set(self.final[view.shard].chain) - set(view.chain):
            self._bury(view.shard, member)
        self.final[view.shard] = view
        return [(member.server, Go(view.shard, view.number)) for member in view.chain]

    def _bury(self, shard: str, member: Member) -> None:
        self.buried[shard, member.server] = member.life
        self.heard_s[shard].pop(member, None)
        self.sound[shard].discard(member)

    def _alive(self, shard: str, now_s: float) -> dict[str, Member]:
        return {
            member.server: member
            for member, last_s in self.heard_s.get(shard, {}).items()
            if now_s - last_s <= self.patience_s
        }

    def _is_over(self, shard: str) -> bool:
        """Whether everybody has ended, or was started anew, who is known to have everything."""
        heard = self.heard_s[shard]
        return all(
            member in self.ended or (member not in heard and any(other.server == member.server for other in heard))
            for member in self.sound[shard]
        )

    # ── who should be where ───────────────────────────────────────────────────────────────────────────────────────

    def _place(self, alive: dict[str, dict[str, Member]]) -> None:
        known = frozenset(
            member for living in alive.values() for member in living.values() if member.server not in self.leaving
        )
        if known and known != self._known:
            now = {shard: self._keepers(shard, alive[shard]) for shard in self.views}
            self.wanted = rebalance(now, sorted({member.server for member in known}), replicas=self.replicas)
            self._known = known

    def _members(self, shard: str) -> tuple[Member, ...]:
        """Those of the last view that stood, and behind them those of one that does not yet."""
        final, chain = self.final[shard].chain, self.views[shard].chain
        return (*final, *(member for member in chain if member not in final))

    def _keepers(self, shard: str, alive: dict[str, Member]) -> list[str]:
        """Its servers, as they should stay where nothing else speaks for it: who lost its memory comes last."""
        members = sorted(self._members(shard), key=lambda member: alive.get(member.server) != member)
        return list(dict.fromkeys(member.server for member in members))

    def _next(self, shard: str, alive: dict[str, Member]) -> tuple[Member, ...] | None:
        """What a chain should be now; None if it is that already, or nothing can be decided."""
        chain, sound = self.views[shard].chain, self.sound[shard]
        kept = tuple(member for member in self._members(shard) if alive.get(member.server) == member)
        if not any(member in sound for member in kept):
            return None
        wanted = self.wanted.get(shard, ())
        joining = [alive[server] for server in wanted if server in alive and alive[server] not in kept]
        if all(member in sound for member in kept):
            if joining:
                kept = (*kept, joining[0])  # one at a time
            elif all(server in [member.server for member in kept] for server in wanted) and wanted:
                kept = tuple(member for member in kept if member.server in wanted)
                kept = tuple(sorted(kept, key=lambda member: member.server != wanted[0]))  # it leads, all others follow
        return None if kept == chain else kept

    def _decide(self, shard: str, chain: tuple[Member, ...]) -> Effects:
        self.views[shard] = view = View(shard, self.views[shard].number + 1, chain)
        return [(member.server, view) for member in chain]
