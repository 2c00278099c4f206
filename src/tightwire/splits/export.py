"""Any model that `torch.export` can trace as a chain of pieces, which a split then cuts between.

    residual block            x ──▶ conv ──▶ norm ──▶ conv ──▶ + ──▶ next
                              │                                ▲
                              └────────────────────────────────┘
    tensors that cross      1        2        2         2        1        a cut is possible where one crosses

The traced graph is a list of operations. Between two of them a cut is possible if one floating-point tensor and nothing
else is needed behind it, and no weight is used on both sides. Sizes that follow from the shape of that tensor are read
from it again. Each piece begins with an operation that has weights, and runs on the very parameters and buffers of the
model. Dropout and batch norm, which the trace has fixed as they were, follow ``training`` again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from typing import Any

import torch
from torch import SymInt, Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node

from tightwire.algebra.errors import JoinError

_ATEN = torch.ops.aten
_TRAINING_AT = {
    _ATEN.dropout.default: 2, _ATEN.dropout_.default: 2, _ATEN.feature_dropout.default: 2,
    _ATEN.alpha_dropout.default: 2, _ATEN.feature_alpha_dropout.default: 2, _ATEN.batch_norm.default: 5,
}  # fmt: skip
"""Operations that are told whether they train, and at which argument."""
_ATTENTION_DROPOUT_AT = 4
_COUNTER = "num_batches_tracked"


def as_sequential(model: nn.Module, x: Tensor) -> nn.Sequential:
    """The model as an `nn.Sequential` of pieces with the model's own parameters; ``x`` is a batch, of any content.

    >>> class Residual(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.inner, self.outer, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
    ...
    ...     def forward(self, x):
    ...         return self.last(x + self.outer(self.inner(x).relu()))
    >>> model = Residual()
    >>> chain = as_sequential(model, torch.randn(3, 4))
    >>> len(chain), chain[1].weight is model.last.weight
    (2, True)
    """
    traced = _traced(model, x)
    places = traced.places()
    if not places:
        raise JoinError(
            f"{type(model).__name__} cannot be cut: wherever its weights are divided, more than one tensor crosses, or "
            "a weight is used on both sides; use a recipe without split"
        )
    ends = [0, *places, len(traced.body)]
    chain = nn.Sequential(*(traced.piece(first, end) for first, end in pairwise(ends)))
    chain.train(model.training)
    _compare(model, chain, x)
    return chain


@dataclass(frozen=True)
class _Traced:
    """A model's operations in order; ``held`` are the weights, by the node that stands for each."""

    given: Node
    body: list[Node]
    result: Node
    held: dict[Node, tuple[str, Tensor]]

    def places(self) -> list[int]:
        """Before which operations the model can be cut: as late as possible between two that have weights."""
        found: dict[int, int] = {}  # by how many weights were used before
        used: set[int] = set()
        for place, node in enumerate(self.body):
            if used and self._crossing(place) is not None and not self._shared(place):
                found[len(used)] = place
            used |= self._weights([node])
        found.pop(len(used), None)  # nothing to train behind it
        return sorted(found.values())

    def piece(self, first: int, end: int) -> nn.Module:
        """Some operations as a module of their own."""
        graph, seen = Graph(), dict[Node, Node]()
        begins, ends = self._crossing(first), self._crossing(end)
        assert begins is not None and ends is not None
        seen[begins] = graph.placeholder("given")
        training = graph.get_attr("training")
        values: dict[str, Any] = {"training": True}
        for size in self._alive(first):
            _again(size, begins, graph, seen)
        for node in self.body[first:end]:
            for source in node.all_input_nodes:
                if source in self.held and source not in seen:
                    name, tensor = self.held[source]
                    seen[source], values[name] = graph.get_attr(name), tensor
            seen[node] = _follow(graph.node_copy(node, lambda old: seen[old]), training)
        graph.output(seen[ends])
        return _linear(self.body[first:end], self.held) or GraphModule(values, graph)

    def _alive(self, place: int) -> list[Node]:
        """What was made before a place and is needed behind it."""
        behind = {source for node in self.body[place:] for source in node.all_input_nodes} | {self.result}
        return [node for node in (self.given, *self.body[:place]) if node in behind]

    def _crossing(self, place: int) -> Node | None:
        """The one tensor that crosses at a place, if there is just one, from whose shape all sizes follow."""
        alive = self._alive(place)
        tensors = [node for node in alive if isinstance(node.meta.get("val"), Tensor)]
        if len(tensors) != 1 or (place and not tensors[0].meta["val"].is_floating_point()):
            return None
        return tensors[0] if all(_follows(node, tensors[0]) for node in alive) else None

    def _shared(self, place: int) -> bool:
        """Whether a weight is used on both sides."""
        return bool(self._weights(self.body[:place]) & self._weights(self.body[place:]))

    def _weights(self, nodes: list[Node]) -> set[int]:
        """The parameters that operations use; one under two names counts once."""
        tensors = [self.held[source][1] for node in nodes for source in node.all_input_nodes if source in self.held]
        return {id(tensor) for tensor in tensors if isinstance(tensor, nn.Parameter)}


def _traced(model: nn.Module, x: Tensor) -> _Traced:
    """The trace of a model that trains."""
    name = type(model).__name__
    if x.dim() < 1 or len(x) < 2:
        raise JoinError(f"a model is traced with a batch of at least 2 samples, and the one given is {tuple(x.shape)}")
    with _as_it_was(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not model.training:
            model.train()
        try:
            program = export(model, (x,), dynamic_shapes=({0: Dim.AUTO},), strict=False)
        except Exception as error:  # of many kinds
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise JoinError(
                f"torch.export cannot trace {name}: {reason}; write it as nn.Sequential, or use a recipe without split"
            ) from error
    return _read(program, model, name)


def _read(program: ExportedProgram, model: nn.Module, name: str) -> _Traced:
    nodes = list(program.graph.nodes)
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    held: dict[Node, tuple[str, Tensor]] = {}
    given = []
    own = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    for node in nodes:
        if node.op != "placeholder":
            continue
        spec = kinds[node.name]
        if spec.kind is InputKind.USER_INPUT:
            given.append(node)
        else:
            assert spec.target is not None
            held[node] = spec.target, own[spec.target] if spec.target in own else program.constants[spec.target]
    body = [node for node in nodes if node.op not in ("placeholder", "output")]
    returned = nodes[-1].args[0]
    results = nodes[-1].all_input_nodes
    if len(given) != 1 or len(results) != 1 or not isinstance(returned, tuple) or len(returned) != 1:
        raise JoinError(f"{name} takes {len(given)} tensors and returns {len(results)}; a split needs one and one")
    if any(node.op != "call_function" for node in body):
        raise JoinError(
            f"{name} has parts with rules of their own (autocast, no_grad, cond); write it as nn.Sequential"
        )
    samples = given[0].meta["val"].shape[0]
    if not isinstance(samples, SymInt) or samples.node.maybe_as_int() is not None:
        raise JoinError(
            f"{name} works for batches of {samples} samples only, as it is written; take sizes from its inputs"
        )
    return _Traced(given[0], body, results[0], held)


def _follows(size: Node, tensor: Node) -> bool:
    """Whether a size can be read from a tensor's shape, or reckoned from sizes that can."""
    if size is tensor or _dimension(size, tensor) is not None:
        return True
    made_of = size.all_input_nodes
    return bool(made_of) and all(isinstance(one.meta.get("val"), SymInt) and _follows(one, tensor) for one in made_of)


def _again(size: Node, tensor: Node, graph: Graph, seen: dict[Node, Node]) -> Node:
    """Read a size from a tensor, or reckon it, in the graph of a piece."""
    if size not in seen:
        place = _dimension(size, tensor)
        if place is not None:
            seen[size] = graph.call_function(_ATEN.sym_size.int, (seen[tensor], place))
        else:
            seen[size] = graph.node_copy(size, lambda one: _again(one, tensor, graph, seen))
    return seen[size]


def _dimension(size: Node, tensor: Node) -> int | None:
    """At which dimension of a tensor a size can be read, if at any."""
    wanted = size.meta.get("val")
    for place, found in enumerate(tensor.meta["val"].shape):
        if isinstance(wanted, SymInt) and isinstance(found, SymInt) and wanted.node.expr == found.node.expr:
            return place
    return None


def _follow(node: Node, training: Node) -> Node:
    """Have an operation ask whether the model trains."""
    if node.target in _TRAINING_AT:
        node.update_arg(_TRAINING_AT[node.target], training)
    elif node.target is _ATEN.scaled_dot_product_attention.default and len(node.args) > _ATTENTION_DROPOUT_AT:
        with node.graph.inserting_before(node):
            share = node.graph.call_function(mul, (training, node.args[_ATTENTION_DROPOUT_AT]))
        node.update_arg(_ATTENTION_DROPOUT_AT, share)
    elif node.target is _ATEN.add_.Tensor and str(getattr(node.args[0], "target", "")).endswith(_COUNTER):
        node.update_arg(1, training)
    return node


def _linear(nodes: list[Node], held: dict[Node, tuple[str, Tensor]]) -> nn.Linear | None:
    """An nn.Linear, where a piece is nothing else: its columns can be dealt out."""
    if len(nodes) != 1 or nodes[0].target is not _ATEN.linear.default:
        return None
    tensors = [held[node][1] for node in nodes[0].args[1:] if isinstance(node, Node) and node in held]
    if not tensors or not all(isinstance(tensor, nn.Parameter) for tensor in tensors):
        return None
    made = nn.Linear(tensors[0].shape[1], tensors[0].shape[0], bias=len(tensors) == 2, device="meta")
    for name, tensor in zip(("weight", "bias"), tensors, strict=False):
        made.register_parameter(name, tensor)  # type: ignore[arg-type]
    return made


@contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Afterwards modules train or not as before, and buffers hold what they held."""
    trains = [(module, module.training) for module in model.modules()]
    values = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for module, was in trains:
            module.training = was
        with torch.no_grad():
            for buffer, value in values:
                buffer.copy_(value)


def _compare(model: nn.Module, chain: nn.Sequential, x: Tensor) -> None:
    """Model and pieces must say the same, training or not: a trace follows what it saw, a model may do otherwise."""
    for training in (True, False):
        said = []
        for module in (model, chain):
            with _as_it_was(model), _as_it_was(chain), torch.no_grad(), torch.random.fork_rng():
                torch.manual_seed(0)
                said.append(module.train(training)(x))
        if not torch.allclose(said[0], said[1], rtol=1e-4, atol=1e-6):
            mode = "training" if training else "evaluation"
            raise JoinError(
                f"the pieces of {type(model).__name__} give another result than the model in {mode}; what it computes "
                "must not depend on values, nor on the mode but by dropout and batch norm: write it as nn.Sequential"
            )
