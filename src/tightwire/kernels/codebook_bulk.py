"""The CUDA kernel of `codebook_bulk.cu`: compiled by NVRTC when first needed, launched through the driver.

    ordinary launch     begins when all before it has ended
    dependent launch    begins while the one before still runs, reads codes ahead, and waits before it reads x

A dependent launch is right only if nobody is still writing the codes. So the first launch for a matrix, and the first
after torch has changed its words in place, is an ordinary one: what comes behind it is behind the writing as well.
(Programmatic dependent launch: CUDA Programming Guide, and PTX ISA, ``griddepcontrol``.)
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tightwire.kernels.codebook_layout import PackedCodes

_HOPPER = (9, 0)  # the compute capability from which on there are copies in bulk
_HOPPER_SHARED_NBYTES = 227 << 10  # that a block may ask for
_MAX_SHARED, _CARVEOUT, _DEPENDENT = 8, 9, 6  # numbers of the driver's attributes
_TABLE_NBYTES, _TILE_NBYTES, _BARRIER_NBYTES = 32768, 1024, 16
MOST_VECTORS = 8

Launch = Callable[..., None]


@dataclass(frozen=True)
class Shape:
    """How a block works: ``high`` bands of tiles, by warps that take a tile each, ``slots`` times on their way."""

    high: int
    warps: int
    slots: int

    def shared_nbytes(self, row_nbytes: int, many: int) -> int:
        """Shared memory of a block: the table, one vector (of several each warp loads its part), sums, tiles."""
        x_nbytes = 4 * row_nbytes if many == 1 else 0
        sums_nbytes = 4 * 16 * self.high * self.warps * many
        return _TABLE_NBYTES + x_nbytes + sums_nbytes + self.slots * (_TILE_NBYTES * self.warps + _BARRIER_NBYTES)

    def holds(self, rows: int, row_nbytes: int, processors: int) -> bool:
        """Whether all blocks run at once, most multiprocessors have work, and no warp is without a tile."""
        blocks = rows // (16 * self.high)
        whole = rows % (16 * self.high) == 0 and row_nbytes % (64 * self.warps) == 0
        return whole and processors // 2 < blocks <= processors


SHAPES = (Shape(4, 16, 5), Shape(2, 16, 6), Shape(8, 16, 6))  # the first that holds is taken


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        *[(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")],
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


def shape_for(rows: int, row_nbytes: int, x_BC: Tensor) -> Shape | None:
    """The shape for this product on x's GPU, or None: then another kernel has to do it."""
    if not 0 < len(x_BC) <= MOST_VECTORS or x_BC.dtype not in {torch.float16, torch.bfloat16}:
        return None
    if x_BC.shape[1] * x_BC.element_size() != 4 * row_nbytes:  # columns that fill the words
        return None
    processors, shared = _sizes(x_BC.device)
    many = _many(x_BC)
    fitting = (shape for shape in SHAPES if shape.shared_nbytes(row_nbytes, many) <= shared)
    return next((shape for shape in fitting if shape.holds(rows, row_nbytes, processors)), None)


def _many(x_BC: Tensor) -> int:
    """The vectors that a kernel is compiled for: one, or up to eight."""
    return 1 if len(x_BC) == 1 else MOST_VECTORS


@cache
def _sizes(device: torch.device) -> tuple[int, int]:
    """Multiprocessors and shared memory a block may ask for; none below Hopper and on other makes."""
    found = torch.cuda.get_device_properties(device)
    if torch.version.hip or (found.major, found.minor) < _HOPPER:
        return 0, 0
    return found.multi_processor_count, int(getattr(found, "shared_memory_per_block_optin", _HOPPER_SHARED_NBYTES))


_launches: dict[tuple[Any, ...], Launch | None] = {}
_launched: WeakKeyDictionary[PackedCodes, int] = WeakKeyDictionary()  # the version of the words at their last launch


def product(matrix: PackedCodes, x_BC: Tensor, *, shape: Shape, dependent: bool = True) -> Tensor | None:
    """``x · Wᵀ``, or None where there is no kernel: no compiler, or a graph is being recorded before it was built."""
    row_nbytes, many = 4 * matrix.stride, _many(x_BC)
    recording = torch.cuda.is_current_stream_capturing()
    key = (x_BC.device, row_nbytes, shape, many, x_BC.dtype)
    if key not in _launches:
        if recording:
            return None
        with torch.cuda.device(x_BC.device):
            _launches[key] = _tried(row_nbytes, shape, many, x_BC.dtype)
    launch = _launches[key]
    if launch is None:
        return None
    if x_BC.data_ptr() % 16:
        x_BC = x_BC.clone()
    out = x_BC.new_empty(len(x_BC), matrix.rows)
    table = matrix.half_256 if x_BC.dtype == torch.float16 else matrix.brain_256
    blocks = matrix.rows // (16 * shape.high)
    with torch.cuda.device(x_BC.device):
        launch(matrix.word_DAIJ, x_BC, table, out, matrix.rows, len(x_BC), blocks=blocks,
               dependent=_unchanged(matrix, recording=recording) and dependent)  # fmt: skip
    return out


def _unchanged(matrix: PackedCodes, *, recording: bool = False) -> bool:
    """Whether the words are those of the launch before; what torch does not count is taken as changed.

    What a graph records is not launched yet, and so is not remembered.
    """
    if matrix.word_DAIJ.is_inference():
        return False
    version = matrix.word_DAIJ._version
    same = _launched.get(matrix) == version
    if not recording:
        _launched[matrix] = version
    return same


def _tried(row_nbytes: int, shape: Shape, many: int, dtype: torch.dtype) -> Launch | None:
    """The kernel, or None with a notice."""
    try:
        return _built(row_nbytes, shape, many, dtype)
    except (OSError, RuntimeError, AttributeError) as error:
        warnings.warn(
            f"no CUDA kernel for codes ({error}): Triton's is used, which takes longer", RuntimeWarning, stacklevel=4
        )
        return None


def source(row_nbytes: int, shape: Shape, many: int, dtype: torch.dtype) -> str:
    """The kernel's text for these sizes."""
    defined = {
        "ROW": row_nbytes, "HIGH": shape.high, "WARPS": shape.warps, "SLOTS": shape.slots, "MANY": many,
        "BRAIN": int(dtype == torch.bfloat16),
    }  # fmt: skip
    front = "".join(f"#define {name} {value}\n" for name, value in defined.items())
    return front + files("tightwire.kernels").joinpath("codebook_bulk.cu").read_text(encoding="utf-8")


def _built(row_nbytes: int, shape: Shape, many: int, dtype: torch.dtype) -> Launch:
    """Compile for the current device and load."""
    binary, shared_nbytes = _compiled(source(row_nbytes, shape, many, dtype)), shape.shared_nbytes(row_nbytes, many)
    driver, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuModuleLoadData(ctypes.byref(module), binary), "cuModuleLoadData")
    _check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"product"), "cuModuleGetFunction")
    _check(driver.cuFuncSetAttribute(function, _MAX_SHARED, shared_nbytes), "cuFuncSetAttribute")
    _check(driver.cuFuncSetAttribute(function, _CARVEOUT, 100), "cuFuncSetAttribute")
    return _launcher(driver, function, threads=32 * shape.warps + 32, shared_nbytes=shared_nbytes)


def _launcher(driver: ctypes.CDLL, function: ctypes.c_void_p, *, threads: int, shared_nbytes: int) -> Launch:
    attribute = _Attribute()
    attribute.id, attribute.value[0] = _DEPENDENT, 1

    def launch(*given: Tensor | int, blocks: int, dependent: bool) -> None:
        held = [ctypes.c_int(a) if isinstance(a, int) else ctypes.c_void_p(a.data_ptr()) for a in given]
        pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(value) for value in held])
        stream = torch.cuda.current_stream().cuda_stream
        config = _Config(blocks, 1, 1, threads, 1, 1, shared_nbytes, stream, ctypes.pointer(attribute), int(dependent))
        _check(driver.cuLaunchKernelEx(ctypes.byref(config), function, pointers, None), "cuLaunchKernelEx")

    return launch


def _compiled(text: str) -> bytes:
    """The machine code for the current device."""
    compiler, program, size = _compiler(), ctypes.c_void_p(), ctypes.c_size_t()
    major, minor = torch.cuda.get_device_capability()
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"--std=c++17"]
    _check(
        compiler.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"codebook_bulk.cu", 0, None, None),
        "nvrtcCreate",
    )
    try:
        code = compiler.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if code:
            compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            compiler.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC says: {log.value.decode(errors='replace')[:400]}")
        _check(compiler.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
        binary = ctypes.create_string_buffer(size.value)
        _check(compiler.nvrtcGetCUBIN(program, binary), "nvrtcGetCUBIN")
        return binary.raw
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def _compiler() -> ctypes.CDLL:
    """NVRTC, which comes with torch: found by name, through torch's own library, or in the packages beside it."""
    major, torch_is = str(torch.version.cuda).split(".", maxsplit=1)[0], Path(torch.__file__).parent
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    beside = [
        *sorted((torch_is.parent / "nvidia").glob(f"*/lib/libnvrtc.so.{major}*")),
        home / f"lib64/libnvrtc.so.{major}",
    ]
    for path in (f"libnvrtc.so.{major}", torch_is / "lib" / "libcaffe2_nvrtc.so", *beside):
        try:
            library = ctypes.CDLL(str(path))
            if hasattr(library, "nvrtcCompileProgram"):
                return library
        except OSError:
            continue
    raise OSError(f"libnvrtc.so.{major} is not installed")


def _check(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"{what} answered {code}")
