"""Small convolutional networks, as plain nn.Sequential: lenet-5 and cnn."""

from __future__ import annotations

from torch import nn

from tightwire.models.errors import image


def lenet_5(inputs: tuple[int, ...], classes: int) -> nn.Sequential:
    """LeNet-5 in Caffe's variant: 431,080 parameters on MNIST.

        conv 5×5, 20 — max-pool 2 — conv 5×5, 50 — max-pool 2 — 500, ReLU — classes

    After LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition. Proc. IEEE 1998.
    """
    channels, height, width = image("lenet-5", inputs, least=16)
    rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
    return nn.Sequential(
        nn.Conv2d(channels, 20, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * rows * columns, 500),
        nn.ReLU(),
        nn.Linear(500, classes),
    )


def cnn(inputs: tuple[int, ...], classes: int) -> nn.Sequential:
    """A network that a CPU trains: 421,642 parameters on 28×28, 545,098 on 32×32 in colour; images from 4×4 on.

        conv 3×3, 32, ReLU — max-pool 2 — conv 3×3, 64, ReLU — max-pool 2 — 128, ReLU — classes

    No batch norm, so that averaging weights is all there is to average.
    """
    channels, height, width = image("cnn", inputs, least=4)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
