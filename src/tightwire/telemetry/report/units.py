"""Numbers as people read them."""

from __future__ import annotations


def show_bytes(nbytes: float) -> str:
    """Three digits and a decimal unit, as networks count.

    >>> show_bytes(0), show_bytes(999), show_bytes(23_771_880), show_bytes(1.5e12)
    ('0 B', '999 B', '23.8 MB', '1.5 TB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if nbytes < 999.5 or unit == "TB":
            break
        nbytes /= 1000
    return f"{show_number(nbytes)} {unit}"


def show_number(value: float) -> str:
    """Three digits; thousands are whole and grouped.

    >>> show_number(0.98765), show_number(74.733), show_number(18650.1), show_number(3.0)
    ('0.988', '74.7', '18,650', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def show_ratio(value: float) -> str:
    """A factor.

    >>> show_ratio(74.733)
    '74.7×'
    """
    return f"{show_number(value)}×"


def show_seconds(seconds: float) -> str:
    """A duration.

    >>> show_seconds(0.00223), show_seconds(0.7721), show_seconds(125), show_seconds(7322)
    ('2.23 ms', '0.772 s', '2 min 5 s', '2 h 2 min')
    """
    if 0 < seconds < 0.0995:
        return f"{show_number(1000 * seconds)} ms"
    if seconds < 119.5:
        return f"{show_number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def show_accuracy(value: float) -> str:
    """A share of right answers, to a hundredth of a percent.

    >>> show_accuracy(0.9610)
    '96.10 %'
    """
    return f"{100 * value:.2f} %"


def plural(count: int, noun: str) -> str:
    """A count and its noun.

    >>> plural(1, "run"), plural(3, "run")
    ('1 run', '3 runs')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
