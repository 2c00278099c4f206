"""Every network by name: its paper, its parameters on that paper's data. Imports no torch, so that `--help` is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tightwire.models.errors import ModelError

Wants: TypeAlias = Literal["anything", "images", "tokens"]


@dataclass(frozen=True)
class ModelName:
    """One line of the catalogue: ``parameters`` is the count for ``inputs`` and ``classes``.

    ``bears`` is the share of a recipe's own learning rate with which it does not diverge.
    """

    name: str
    what: str
    paper: str
    parameters: int
    inputs: tuple[int, ...]
    classes: int
    wants: Wants
    maker: str  # module:function
    bears: float = 1.0


_RESNET = "He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition. CVPR 2016, arXiv 1512.03385"
_LENET = "LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition. Proc. IEEE 1998"
_HOME = "tightwire.models"

MODELS: dict[str, ModelName] = {
    entry.name: entry
    for entry in (
        ModelName(
            "mlp", "two hidden layers, 128 and 64 units, ReLU", "none: the smallest network that learns the digits",
            17_226, (64,), 10, "anything", f"{_HOME}.dense:mlp",
        ),
        ModelName(
            "lenet-300-100", "two hidden layers, 300 and 100 units", _LENET,
            266_610, (1, 28, 28), 10, "anything", f"{_HOME}.dense:lenet_300_100",
        ),
        ModelName(
            "lenet-5", "two convolutions of 20 and 50 channels, 500 hidden units (Caffe's variant)", _LENET,
            431_080, (1, 28, 28), 10, "images", f"{_HOME}.convolutional:lenet_5", 0.2,
        ),
        ModelName(
            "dnn7", "seven hidden layers of 2048 units, for speech frames",
            "Hinton et al.: Deep Neural Networks for Acoustic Modeling in Speech Recognition. IEEE SPM 2012",
            27_150_836, (462,), 500, "anything", f"{_HOME}.dense:dnn7",
        ),
        ModelName(
            "cnn", "two convolutions of 32 and 64 channels, 128 hidden units", "none: learns Fashion-MNIST on a CPU",
            421_642, (1, 28, 28), 10, "images", f"{_HOME}.convolutional:cnn",
        ),
        ModelName(
            "resnet20", "residual network for 32×32, 3 stages of 3 blocks", _RESNET,
            269_722, (3, 32, 32), 10, "images", f"{_HOME}.resnet:resnet20",
        ),
        ModelName(
            "resnet56", "residual network for 32×32, 3 stages of 9 blocks", _RESNET,
            853_018, (3, 32, 32), 10, "images", f"{_HOME}.resnet:resnet56",
        ),
        ModelName(
            "resnet18", "residual network, 4 stages of 2 basic blocks", _RESNET,
            11_689_512, (3, 224, 224), 1000, "images", f"{_HOME}.resnet:resnet18",
        ),
        ModelName(
            "resnet50", "residual network, bottleneck blocks 3-4-6-3", _RESNET,
            25_557_032, (3, 224, 224), 1000, "images", f"{_HOME}.resnet:resnet50",
        ),
        ModelName(
            "vgg16", "13 convolutions of 3×3, 3 fully connected layers",
            "Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition. ICLR 2015, "
            "arXiv 1409.1556",
            138_357_544, (3, 224, 224), 1000, "images", f"{_HOME}.vgg:vgg16",
        ),
        ModelName(
            "mobilenet-v2", "inverted residual blocks, one 3×3 convolution a channel",
            "Sandler, Howard, Zhu, Zhmoginov, Chen: MobileNetV2: Inverted Residuals and Linear Bottlenecks. CVPR 2018, "
            "arXiv 1801.04381",
            3_504_872, (3, 224, 224), 1000, "images", f"{_HOME}.mobilenet:mobilenet_v2",
        ),
        ModelName(
            "alexnet", "5 convolutions, three of them in two groups, 3 fully connected layers (Caffe's variant)",
            "Krizhevsky, Sutskever, Hinton: ImageNet Classification with Deep Convolutional Neural Networks. NIPS 2012",
            60_965_224, (3, 227, 227), 1000, "images", f"{_HOME}.alexnet:alexnet",
        ),
        ModelName(
            "lstm-lm", "word language model: two LSTM layers of 1500 units, tied embedding",
            "Zaremba, Sutskever, Vinyals: Recurrent Neural Network Regularization. arXiv 1409.2329; tied as in Press, "
            "Wolf: Using the Output Embedding to Improve Language Models. EACL 2017",
            51_034_000, (35,), 10_000, "tokens", f"{_HOME}.lstm:lstm_lm",
        ),
    )
}  # fmt: skip


def describe(name: str) -> ModelName:
    """What the catalogue knows of a network.

    >>> describe("resnet50").parameters
    25557032
    """
    if name not in MODELS:
        raise ModelError(f"there is no model {name!r}; there are {', '.join(MODELS)}, and your own as module:function")
    return MODELS[name]
