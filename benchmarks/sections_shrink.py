"""Sections of docs/results.md about files of shrunk networks."""

from __future__ import annotations

from typing import Any

from benchmarks.tables import table

_PLANS = {"paper": "Deep Compression's densities, bits, Huffman", "ours": "ours", "smaller": "ours, half as dense"}


def shrink(record: dict[str, Any]) -> str:
    """From reference to bytes on disk."""
    rows: list[list[object]] = [
        [f"`{row['network']}`", _PLANS[row["plan"]], row["seeds"], f"{row['reference_error']:.2f}%",
         f"{row['error']:.2f}%", f"{row['nbytes']:,.0f}", f"**{row['ratio']:.1f}×**"]
        for row in record["means"]
    ]  # fmt: skip
    head = ["network", "plan", "seeds", "reference's error", "error", "bytes of the file", "smaller"]
    parts = [
        "## Deep Compression: files\n\nBytes of the whole `.twz` file, against four bytes for each parameter; errors "
        "are of the network built from the file, on the test set, means over seeds. LeNets on MNIST (LeNet-5 with "
        "shifted images), the others on CIFAR-10: the published 49× and 63.6× for VGG-16 are of ImageNet's, a larger "
        "network.\n\n",
        table(head, rows),
        *(f"\n`{row['network']}`, seed {row['seed']}: {row['note']}\n" for row in record["rows"] if "note" in row),
    ]
    for row in record["rows"]:
        if row["network"] == "mobilenet-v2":
            parts += ["\n", _mobilenet(row)]
    curves = bits_curves(record)
    if curves:
        parts += ["\n", _bits(curves)]
    return "".join(parts)


def _mobilenet(row: dict[str, Any]) -> str:
    """Without data: how often the network from the file says what the original says."""
    lines: list[list[object]] = [
        [one["bits"], f"{one['nbytes']:,}", f"{one['ratio']:.1f}×", f"{100 * one['kmeans_agreement_photos']:.1f}%",
         f"{100 * one['uniform_agreement_photos']:.1f}%"]
        for one in row["bits"]
    ]  # fmt: skip
    return (
        "MobileNetV2 trained on ImageNet, clustered and coded without data or training; how often its first answer is "
        f"the original's, on {row['photos']:,} photographs it was not trained on (CIFAR-10, enlarged):\n\n"
        + table(["bits", "bytes", "smaller", "k-means", "uniform levels"], lines)
    )


def bits_curves(record: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    """Errors by bits for each network, means over its seeds."""
    found: dict[str, list[dict[str, float]]] = {}
    for name in dict.fromkeys(row["network"] for row in record["rows"] if "seed" in row and "bits" in row):
        same = [row["bits"] for row in record["rows"] if row["network"] == name]
        found[name] = [
            {key: sum(rows[i][key] for rows in same) / len(same) for key in one} for i, one in enumerate(same[0])
        ]
    return found


def _bits(curves: dict[str, list[dict[str, float]]]) -> str:
    lines: list[list[object]] = [
        [f"`{name}`", f"{one['bits']:g}", *(_error(one, f"{kind}{how}_error") for how in ("", "_retrained")
                                           for kind in ("kmeans", "uniform"))]
        for name, rows in curves.items()
        for one in rows
    ]  # fmt: skip
    head = ["network", "bits", "k-means", "uniform", "k-means, centroids trained", "uniform, trained through levels"]
    return (
        "Error on the test set against bits, all weights kept: k-means with 2ᵇ values a layer, and 2ᵇ − 1 equidistant "
        "levels; as they are, and after a few epochs of training "
        "([drawn](images/bits_resnet20.svg)):\n\n" + table(head, lines)
    )


def _error(row: dict[str, float], key: str) -> str:
    return f"{row[key]:.2f}%" if key in row else ""
