"""Files taken apart and put together again with right checksums, so that damage reaches what is behind them."""

from __future__ import annotations

import json
import zlib
from copy import deepcopy
from typing import Any

import numpy as np

from tightwire.compress.artifact.layout import LENGTH, MAGIC, PRELUDE_NBYTES, VERSION, crc, digest


def seal(header: bytes, bodies: list[bytes]) -> bytes:
    parts = [MAGIC, bytes([VERSION]), LENGTH.pack(len(header)), header, crc(header), *(b + crc(b) for b in bodies)]
    whole = b"".join(parts)
    return whole + digest(whole)


def pack(content: Any) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(json.dumps(content).encode()) + packer.flush()


def apart(whole: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Header and sections of a good file."""
    nbytes = LENGTH.unpack(whole[4:PRELUDE_NBYTES])[0]
    content = json.loads(zlib.decompress(whole[PRELUDE_NBYTES : PRELUDE_NBYTES + nbytes], -15))
    at, bodies = PRELUDE_NBYTES + nbytes + 4, []
    sizes = {"f2": 2, "f4": 4, "i1": 1, "i2": 2, "i4": 4, "i8": 8}
    for row in content["tensors"]:
        numel = row[4] if len(row) == 7 else int(np.prod(row[1], dtype=np.int64))
        numbers = 8 if row[2] == "linear" else sum(n for _, n in row[3]) if row[3] else numel * sizes[row[2]]
        size = numbers + (row[6] if len(row) == 7 else 0)
        bodies.append(whole[at : at + size])
        at += size + 4
    assert at + 8 == len(whole)
    return content, bodies


ODD = (0, 1, -1, 2, 7, 255, 256, 65535, 65536, 1 << 20, 1 << 24, 1 << 31, 1 << 40, 1 << 64, 1.5, True, None, "", "f2",
       "rans", "mixing", "fixed", "linear", [], [[]], {}, "x" * 600)  # fmt: skip


def mutate(whole: bytes, rng: np.random.Generator) -> bytes:
    """Another file: damaged anywhere, mostly with right checksums."""
    content, bodies = apart(whole)
    header = None
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(6)
        if kind == 0:  # as a disk would
            return _scratch(whole, rng)
        if kind in (1, 2) and bodies:
            which = rng.integers(len(bodies))
            bodies[which] = _scratch(bodies[which], rng)
        elif kind == 3 and len(bodies) > 1:
            a, b = rng.integers(len(bodies), size=2)
            bodies[a], bodies[b] = bodies[b], bodies[a]
        elif kind == 4:
            header = _scratch(pack(content), rng)
        else:
            _vary(content, rng)
    return seal(pack(content) if header is None else header, bodies)


def _scratch(part: bytes, rng: np.random.Generator) -> bytes:
    made, at = bytearray(part), int(rng.integers(len(part) + 1))
    kind = rng.integers(5)
    if kind == 0:
        return bytes(made[:at])
    if kind == 1:
        return bytes(made[:at] + rng.bytes(int(rng.integers(1, 20))) + made[at:])
    if kind == 2:
        return bytes(made[:at]) + bytes([int(rng.choice([0, 255]))]) * (len(made) - at)
    for _ in range(rng.integers(1, 5)):
        if made:
            made[rng.integers(len(made))] = rng.integers(256)
    return bytes(made)


def _vary(content: dict[str, Any], rng: np.random.Generator) -> None:
    """Another value somewhere in the header."""
    holder: Any = content
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        if not isinstance(holder[key], dict | list) or rng.random() < 0.1:
            old = holder[key]
            near = [old + 1, old - 1, 2 * old] if type(old) is int else []
            choices = [*ODD, *near, *near, *near]
            holder[key] = deepcopy(choices[rng.integers(len(choices))])  # the next change may go inside
            return
        holder = holder[key]
