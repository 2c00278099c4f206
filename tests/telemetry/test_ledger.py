"""Bytes are kept apart by what they are for, and three numbers sum them up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.telemetry.ledger import TRAINING, Key, Known, Ledger, Phase

PHASES: tuple[Phase, ...] = ("exchange", "ask", "answer", "setup", "agree", "boundary")
moves = st.lists(
    st.tuples(
        st.sampled_from(PHASES),
        st.sampled_from(["w", "b"]),
        st.integers(0, 1000),
        st.integers(0, 1000),
        st.sampled_from(["counted", "modelled"]),
    ),
    max_size=20,
)
Moves = list[tuple[Phase, str, int, int, Known]]


def filled(script: Moves) -> Ledger:
    ledger = Ledger()
    for phase, group, tx, rx, known in script:
        ledger.moved(phase, group, tx=tx, rx=rx, known=known)
    return ledger


@given(moves)
def test_totals_are_the_sums_of_what_moved(script: Moves) -> None:
    ledger = filled(script)
    for phase in PHASES:
        assert ledger.total("tx", phase) == sum(tx for p, _, tx, _, _ in script if p == phase)
        assert ledger.total("rx", phase) == sum(rx for p, _, _, rx, _ in script if p == phase)
    assert ledger.total("tx", *PHASES) == sum(tx for _, _, tx, _, _ in script)


@given(moves)
def test_only_training_traffic_is_in_the_headline(script: Moves) -> None:
    ledger = filled(script)
    assert ledger.tx_bytes == sum(tx for phase, _, tx, _, _ in script if phase in TRAINING)
    assert ledger.rx_bytes == sum(rx for phase, _, _, rx, _ in script if phase in TRAINING)


def test_training_is_payloads_questions_and_activations() -> None:
    assert set(TRAINING) == {"exchange", "ask", "boundary"}


@given(moves)
def test_rows_keep_apart_how_bytes_are_known_and_add_up(script: Moves) -> None:
    rows = filled(script).rows()
    keys = [Key(row["phase"], row["group"], row["direction"], row["known"]) for row in rows]
    assert len(set(keys)) == len(keys)
    assert {(key.phase, key.group, key.known) for key in keys} == {(p, g, k) for p, g, _, _, k in script}
    assert sum(row["nbytes"] for row in rows) == sum(tx + rx for _, _, tx, rx, _ in script)


@given(moves, moves)
def test_a_ledger_that_was_restored_goes_on_counting(before: Moves, after: Moves) -> None:
    one, two = filled(before), Ledger()
    one.produced(50)
    one.stepped(200)
    two.moved("exchange", "w", tx=10**6, rx=10**6, known="counted")
    two.restore(json.loads(json.dumps(one.state())))
    for ledger in (one, two):
        ledger.produced(50)
        for phase, group, tx, rx, known in after:
            ledger.moved(phase, group, tx=tx, rx=rx, known=known)
    assert two.summary() == one.summary()
    assert two.payload_ratio == 2.0


def test_the_payload_ratio_is_dense_bytes_over_encoded_bytes() -> None:
    ledger = Ledger()
    assert ledger.payload_ratio is None
    ledger.stepped(1000)
    assert ledger.payload_ratio is None
    ledger.produced(30)
    ledger.produced(20)
    ledger.stepped(1000)
    assert ledger.payload_ratio == 40.0


def test_what_was_produced_is_not_what_moved() -> None:
    ledger = Ledger()
    ledger.produced(100)
    ledger.stepped(100)
    assert (ledger.tx_bytes, ledger.rx_bytes, ledger.rows()) == (0, 0, [])


@pytest.mark.parametrize("order", [("w", "b"), ("b", "w")])
def test_rows_do_not_depend_on_what_moved_first(order: tuple[str, str]) -> None:
    ledger = Ledger()
    for group in order:
        ledger.moved("exchange", group, tx=1, rx=2, known="counted")
    assert [(row["group"], row["direction"], row["nbytes"]) for row in ledger.rows()] == [
        ("b", "rx", 2), ("b", "tx", 1), ("w", "rx", 2), ("w", "tx", 1),
    ]  # fmt: skip


def test_the_summary_is_plain_data() -> None:
    ledger = Ledger()
    ledger.moved("ask", "w", tx=8, rx=4, known="modelled")
    ledger.produced(8)
    ledger.stepped(32)
    assert json.loads(json.dumps(ledger.summary())) == {
        "payload_ratio": 4.0,
        "tx_bytes": 8,
        "rx_bytes": 4,
        "rows": [
            {"phase": "ask", "group": "w", "direction": "rx", "known": "modelled", "nbytes": 4},
            {"phase": "ask", "group": "w", "direction": "tx", "known": "modelled", "nbytes": 8},
        ],
    }
