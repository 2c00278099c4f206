"""Small numbers in few bits and bytes, and a reader that never runs over the end."""

from __future__ import annotations

from dataclasses import dataclass

from tightwire.algebra.errors import PayloadError


def varint(number: int) -> bytes:
    """Seven bits a byte, lowest first; the highest bit says that more follow.

    >>> list(varint(300))
    [172, 2]
    """
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


@dataclass
class Reader:
    """Bytes with a place in them."""

    payload: bytes
    at: int = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self.payload) - self.at

    def varint(self, most: int) -> int:
        """A number of at most ``most``."""
        number, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 127) << shift
            shift += 7
            if number > most or shift > 70:
                raise PayloadError(f"a count exceeds {most}: the bytes are damaged")
            if byte < 128:
                return number

    def take(self, nbytes: int) -> bytes:
        """The next bytes."""
        if nbytes > self.left:
            raise PayloadError(f"{nbytes} bytes are announced where {self.left} are left")
        self.at += nbytes
        return self.payload[self.at - nbytes : self.at]

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(self.left)


class BitWriter:
    """Bits into bytes, lowest first."""

    def __init__(self) -> None:
        self._whole: list[str] = []

    def unary(self, number: int) -> None:
        """So many zeros and a one."""
        self._whole.append("0" * number + "1")

    def fixed(self, number: int, bits: int) -> None:
        """So many bits, lowest first."""
        self._whole.append(format(number, f"0{bits}b")[::-1] if bits else "")

    def gamma(self, number: int) -> None:
        """A number of at least 1: its length in unary, then the bits below its highest (Elias 1975)."""
        bits = number.bit_length() - 1
        self.unary(bits)
        self.fixed(number - (1 << bits), bits)

    def bytes(self) -> bytes:
        """Everything, on a whole byte."""
        text = "".join(self._whole)
        return int(text[::-1] or "0", 2).to_bytes((len(text) + 7) // 8, "little")


class BitReader:
    """What `BitWriter` wrote, from where a `Reader` stands; `close` moves it to the next whole byte."""

    def __init__(self, reader: Reader, most_nbytes: int) -> None:
        self._reader = reader
        window = reader.payload[reader.at : reader.at + most_nbytes]
        self._text = format(int.from_bytes(window, "little"), f"0{8 * len(window)}b")[::-1] if window else ""
        self._at = 0

    def unary(self, most: int) -> int:
        """Zeros before the next one."""
        end = self._text.find("1", self._at, self._at + most + 1)
        if end < 0:
            raise PayloadError("a table ends in the middle of a number")
        zeros = end - self._at
        self._at = end + 1
        return zeros

    def fixed(self, bits: int) -> int:
        """A number of so many bits."""
        text = self._text[self._at : self._at + bits]
        if len(text) < bits:
            raise PayloadError("a table ends in the middle of a number")
        self._at += bits
        return int(text[::-1] or "0", 2)

    def gamma(self, most_bits: int) -> int:
        """A number of `BitWriter.gamma`."""
        bits = self.unary(most_bits)
        return (1 << bits) + self.fixed(bits)

    def close(self) -> None:
        """Go on with whole bytes."""
        self._reader.at += (self._at + 7) // 8
