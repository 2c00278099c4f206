"""Rates as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.lab import LinkRate, RateError, parse_rate
from tightwire.lab.shaping import shape


@pytest.mark.parametrize(
    ("text", "bits_per_second", "latency_s"),
    [
        ("1gbit", 10**9, 0.0),
        ("25gbit", 25 * 10**9, 0.0),
        ("100mbit", 10**8, 0.0),
        ("500kbit", 500_000, 0.0),
        ("1000bit", 1000, 0.0),
        ("1.5Gbit", 1_500_000_000, 0.0),
        ("1mibit", 1 << 20, 0.0),
        (" 10 mbit ", 10**7, 0.0),
        ("1gbit,5ms", 10**9, 0.005),
        ("1gbit, 250us", 10**9, 0.00025),
        ("1gbit,0.1s", 10**9, 0.1),
        ("1gbit,0ms", 10**9, 0.0),
    ],
)
def test_reads(text: str, bits_per_second: int, latency_s: float) -> None:
    rate = parse_rate(text)
    assert rate.bits_per_second == bits_per_second
    assert rate.latency_s == pytest.approx(latency_s)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no number"),
        ("fast", "no number"),
        ("gbit", "no number"),
        ("nangbit", "no number"),
        ("nan gbit", "no number"),
        ("inf gbit", "no number"),
        ("1.2.3gbit", "no number"),
        ("1e999gbit", "no number"),
        ("1", "unit is missing"),
        ("1gb", "'gb' is none of bit, kbit"),
        ("50%", "'%' is none of"),
        ("0gbit", "from 1kbit to 10tbit"),
        ("1bit", "from 1kbit to 10tbit"),
        ("999tbit", "from 1kbit to 10tbit"),
        ("-1gbit", "negative"),
        ("100mbps", "write 100mbit for bits, 800mbit for bytes"),
        ("10gb/s", "write 10gbit for bits, 80gbit for bytes"),
        ("1gbit,", "no number"),
        ("1gbit,5", "latency in s, ms or us"),
        ("1gbit,5m", "latency in s, ms or us"),
        ("1gbit,-5ms", "negative"),
        ("1gbit,nanms", "no number"),
        ("1gbit,1000s", "from 0 to 10 s"),
        ("1gbit,5ms,6ms", "no number"),
    ],
)
def test_refuses(text: str, says: str) -> None:
    with pytest.raises(RateError, match=says):
        parse_rate(text)


@given(st.integers(1000, 10**13), st.integers(0, 10**6))
def test_what_is_written_can_be_read(bits_per_second: int, latency_us: int) -> None:
    rate = LinkRate(bits_per_second, latency_us * 1e-6)
    again = parse_rate(str(rate))
    assert again.bits_per_second == bits_per_second
    assert again.latency_s == pytest.approx(rate.latency_s, rel=1e-5)


@given(st.integers(1000, 10**13), st.sampled_from([576, 1500, 9000, 65_000]))
def test_a_bucket_holds_a_segment_and_the_queue_a_bucket(bits_per_second: int, mtu: int) -> None:
    how = shape(LinkRate(bits_per_second), mtu)
    assert how.segment_nbytes <= 65_536
    assert how.burst_nbytes > max(how.segment_nbytes, mtu + 14), "a packet that does not fit is cut up or dropped"
    assert how.queue_nbytes > how.burst_nbytes


def test_bursts_are_small_where_links_are_slow() -> None:
    free_s = {rate: shape(parse_rate(rate), 1500).burst_nbytes * 8 / parse_rate(rate).bits_per_second for rate in RATES}
    assert free_s["1gbit"] < 1.2e-3
    assert free_s["100mbit"] < 2e-3
    assert free_s["10mbit"] < 8e-3


RATES = ("10mbit", "100mbit", "1gbit")
