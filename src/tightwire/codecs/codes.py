"""Small whole numbers of a fixed width as bytes, and the refusal of bytes that cannot be a payload.

8 codes of w bits = w bytes, lowest bits first; the last group is cut to whole bytes: ⌈n·w/8⌉ in all
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tightwire.algebra.codec import Payload
from tightwire.algebra.doubts import refuse_if
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Spec
from tightwire.codecs.stretches import Per, counted, stretches


def codes_nbytes(count: int, width: int) -> int:
    """Bytes of ``count`` codes; of more than 8 bits, the low and the high bits stand apart.

    >>> codes_nbytes(10, 2), codes_nbytes(10, 12)
    (3, 15)
    """
    if width > 8:
        return count + codes_nbytes(count, width - 8)
    return -(-count * width // 8)


def pack_codes(code_N: Tensor, width: int) -> Tensor:
    """Codes below 2^width (at most 16) as bytes.

    >>> pack_codes(torch.tensor([1, 2, 0, 3, 1]), 2).tolist()
    [201, 1]
    """
    if width > 8:
        return torch.cat([pack_codes(code_N & 255, 8), pack_codes(code_N >> 8, width - 8)])
    together = 8 // width if 8 % width == 0 else 8  # codes that fill whole bytes
    padded = F.pad(code_N.to(torch.uint8), (0, -code_N.numel() % together)).view(-1, together)
    dtype = torch.uint8 if 8 % width == 0 else torch.int64
    word_G = torch.zeros(len(padded), dtype=dtype, device=code_N.device)
    for place in range(together):
        word_G |= padded[:, place].to(dtype) << (place * width)
    if dtype == torch.uint8:
        return word_G
    return word_G.view(torch.uint8).view(-1, 8)[:, :width].reshape(-1)[: codes_nbytes(code_N.numel(), width)]


def unpack_codes(byte_B: Tensor, count: int, width: int) -> Tensor:
    """The codes that `pack_codes` wrote: uint8, or int64 where they have more than 8 bits."""
    assert byte_B.numel() == codes_nbytes(count, width), (byte_B.numel(), count, width)
    if width > 8:
        low, high = unpack_codes(byte_B[:count], count, 8), unpack_codes(byte_B[count:], count, width - 8)
        return low.long() | high.long() << 8
    together = 8 // width if 8 % width == 0 else 8
    word_G = byte_B
    if 8 % width:
        groups = F.pad(byte_B, (0, -byte_B.numel() % width)).view(-1, width)
        word_G = F.pad(groups, (0, 8 - width)).view(torch.int64).view(-1)
    out = torch.empty(word_G.numel(), together, dtype=torch.uint8, device=byte_B.device)
    for place in range(together):
        out[:, place] = (word_G >> (place * width)) & ((1 << width) - 1)
    return out.view(-1)[:count]


def spread(scale_B: Tensor, spec: Spec, per: Per) -> Tensor:
    """Scales as wide as the elements that share them: one for each row, tensor, or so many elements.

    >>> spread(torch.tensor([1.0, 2.0, 3.0]), Spec.pack([("w", (3,)), ("b", (1,))]), 2)
    tensor([1., 1., 2., 3.])
    """
    found = stretches(spec, scale_B.device, per)
    if found is not None:
        return found.spread(scale_B)
    out_N = scale_B.new_empty(spec.numel)
    begin = 0
    for s in spec.segments:
        count, length = counted(s, per)
        mine_B, flat = scale_B[begin : begin + count], out_N[s.offset : s.offset + s.numel]
        whole = s.numel // length if length else 0
        flat[: whole * length].view(whole, length).copy_(mine_B[:whole, None])
        if whole * length < s.numel:
            flat[whole * length :] = mine_B[whole]
        begin += count
    return out_N


def exactly(payload: Payload, nbytes: int, what: str) -> Tensor:
    """The payload's bytes if there are ``nbytes`` of them, else a refusal."""
    if payload.nbytes != nbytes:
        raise PayloadError(f"a {what} payload of {payload.nbytes} bytes where {nbytes} belong")
    return payload.wire.reshape(-1).view(torch.uint8)


def scales(byte_B: Tensor, what: str) -> Tensor:
    """Bytes as float32 scales: finite and not negative, else a refusal."""
    scale_S = byte_B.clone().view(torch.float32)
    fine = (scale_S.isfinite() & (scale_S >= 0)).all()
    refuse_if(~fine, f"a {what} payload has a scale that is negative or not finite")
    return scale_S
