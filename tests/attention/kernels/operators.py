"""Operators of kernels straight from numpy, where nothing has to be converted: the same bits.

Triton's interpreter finds a common type of the operands and fills whole blocks with one number, in dozens of calls.
Values of one type need none of that, nor does a Python number that this type holds: numpy broadcasts as Triton does.
All else goes Triton's own way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

Operator = Callable[[Any, Any], Any]
_BITS = {kind: kind.primitive_bitwidth for kind in (tl.int32, tl.int64, tl.uint32, tl.uint64)}
_NUMPY = {
    tl.int32: np.int32, tl.int64: np.int64, tl.uint32: np.uint32, tl.uint64: np.uint64,
    tl.float32: np.float32, tl.float64: np.float64,
}  # fmt: skip
_INTEGERS = frozenset(map(id, _BITS))
_SIGNED = frozenset((id(tl.int32), id(tl.int64)))
_FLOATS = frozenset((id(tl.float32), id(tl.float64)))
_NUMBERS = _INTEGERS | _FLOATS
_TRUTHS = _INTEGERS | {id(tl.int1)}
"""Of types by their identity: their own hash is worked out from their name."""
_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_EXTREMES = {"maximum": np.maximum, "minimum": np.minimum}
_WHOLE = {"mod": np.fmod, "floordiv": lambda left, right: (left - np.fmod(left, right)) // right}  # as Triton's do
_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_SHIFTS = {"lshift": np.left_shift, "rshift": np.right_shift}
_COMPARISONS = {
    "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_EXACT = 1 << 24
"""Integers up to here are float32's too."""
_kept: dict[tuple[type, Any, int], np.ndarray | None] = {}


def constant(number: Any, kind: Any) -> np.ndarray | None:
    """[1], a Python number as `kind` holds it; None where it may have another type in Triton."""
    if type(number) is not int and type(number) is not float:
        return None
    key = (type(number), number, id(kind))
    if key not in _kept:
        _kept[key] = _held(number, kind)
    return _kept[key]


def _held(number: Any, kind: Any) -> np.ndarray | None:
    if kind not in _NUMPY or kind is tl.float64:  # numbers are float32 before they are float64
        return None
    if kind in _BITS:
        lowest, end = (0, 1 << _BITS[kind]) if kind.is_int_unsigned() else (-(1 << 31), 1 << 31)
        fits = type(number) is int and lowest <= number < end
    else:
        size = abs(number)
        fits = size <= _EXACT if type(number) is int else size in (0, math.inf) or 2**-126 <= size < 2**127
    made = np.array([number or 0], dtype=_NUMPY[kind]) if fits else None  # as Triton, which knows no -0.0
    if made is not None:
        made.flags.writeable = False
    return made


def value_of(data: np.ndarray, kind: Any, type: Any) -> Any:
    """A kernel's value of Triton's `type`, whose numbers are held as the scalar type `kind`."""
    handle = TensorHandle.__new__(TensorHandle)
    handle.data, handle.dtype, handle.attr = data, kind, {}
    return tl.core.tensor(handle, type)


def _as(kind: Any, type: Any) -> Any:
    """`type` with other numbers in it."""
    return tl.block_type(kind, type.shape) if type.is_block() else kind


def _type(one: Any, other: Any, data: np.ndarray) -> Any:
    """The type of `data`: the first operand's scalar type, and the shape of both."""
    if other.shape is one.shape or not other.type.is_block():
        return one.type
    return tl.block_type(one.dtype, data.shape)


def _alike(type: Any) -> Any:
    return type


def _truth(type: Any) -> Any:
    return _as(tl.int1, type)


def _direct(function: Any, kinds: frozenset[int], typed: Callable[[Any], Any], slow: Operator) -> Operator:
    """`function` of a value and another or a number, where both are of one of these kinds; else `slow`."""

    def operator(self: Any, other: Any) -> Any:
        kind = self.dtype
        if id(kind) not in kinds:
            return slow(self, other)
        given = other.value if type(other) is tl.constexpr else other
        if type(given) is tl.core.tensor:
            mixed = given.dtype is not kind
            if mixed and not (id(kind) in _SIGNED and id(given.dtype) in _SIGNED):
                return slow(self, other)
            data = function(self.handle.data, given.handle.data)
            type_ = _type(self, given, data)
            if mixed:  # numpy too counts in the wider one
                return value_of(data, tl.int64, typed(_as(tl.int64, type_)))
            return value_of(data, self.handle.dtype.scalar, typed(type_))
        held = constant(given, kind)
        if held is None:
            return slow(self, other)
        return value_of(function(self.handle.data, held), self.handle.dtype.scalar, typed(self.type))

    return operator


def _turned(function: Any, kinds: frozenset[int], slow: Operator) -> Operator:
    """`function` of a number and a value."""

    def operator(self: Any, other: Any) -> Any:
        held = constant(other, self.dtype) if id(self.dtype) in kinds else None
        if held is None:
            return slow(self, other)
        return value_of(function(held, self.handle.data), self.dtype, self.type)

    return operator


def _shift(function: Any, slow: Operator) -> Operator:
    """A shift by a number of bits that the type has; else `slow`, which warns."""
    direct = _direct(function, _INTEGERS, _alike, slow)

    def operator(self: Any, other: Any) -> Any:
        return direct(self, other) if type(other) is int and 0 <= other < 32 else slow(self, other)

    return operator


def _advance(slow: Operator) -> Operator:
    """A sum; of a pointer and signed integers too, which are counted in the size of what it points to."""
    direct = _direct(np.add, _NUMBERS, _alike, slow)

    def operator(self: Any, other: Any) -> Any:
        if type(self.dtype) is not tl.pointer_type:
            return direct(self, other)
        size = max(1, self.dtype.element_ty.primitive_bitwidth // 8)
        held = constant(other, tl.int32)
        if held is not None:
            return value_of(self.handle.data + size * held.astype(np.uint64), self.handle.dtype, self.type)
        if type(other) is not tl.core.tensor or id(other.dtype) not in _SIGNED:
            return slow(self, other)
        data = self.handle.data + size * other.handle.data.astype(np.uint64)
        return value_of(data, self.handle.dtype, _type(self, other, data))

    return operator


def _index(slow: Operator) -> Operator:
    """New axes of size 1 between the axes of a block."""

    def taken(self: Any, slices: Any) -> Any:
        plain = type(slices) is tuple and all(each is None or each == slice(None) for each in slices)
        if not plain or not self.type.is_block() or len(slices) - slices.count(None) > len(self.shape):
            return slow(self, slices)
        data = self.handle.data[slices]
        return value_of(data, self.handle.dtype.scalar, tl.block_type(self.dtype, data.shape))

    return taken


def _cast(slow: Callable[..., Any]) -> Callable[..., Any]:
    """A number of one type as another's."""

    def cast(self: Any, kind: Any, *rest: Any, **more: Any) -> Any:
        known = id(kind) in _NUMBERS and (id(self.dtype) in _NUMBERS or self.dtype is tl.int1)
        if rest or more or not known:
            return slow(self, kind, *rest, **more)
        if kind is self.dtype:
            return self
        return value_of(self.handle.data.astype(_NUMPY[kind]), kind, _as(kind, self.type))

    return cast


def _extreme(function: Any, slow: Callable[..., Any]) -> Callable[..., Any]:
    """The larger or the smaller of two, of which the first is a value."""
    direct = _direct(function, _NUMBERS, _alike, slow)

    def chosen(x: Any, y: Any, *rest: Any, **more: Any) -> Any:
        return direct(x, y) if type(x) is tl.core.tensor and not rest and not more else slow(x, y, *rest, **more)

    return chosen


def _where(slow: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A choice between values of one type, or one and a number, that have the condition's shape or are one number."""

    def chosen(condition: Any, x: Any, y: Any) -> Any:
        value = x if type(x) is tl.core.tensor else y
        if type(condition) is not tl.core.tensor or type(value) is not tl.core.tensor:
            return slow(condition, x, y)
        kind = value.dtype
        if condition.dtype is not tl.int1 or id(kind) not in _NUMBERS:
            return slow(condition, x, y)
        one, other = (_side(each, kind, condition.shape) for each in (x, y))
        if one is None or other is None:
            return slow(condition, x, y)
        return value_of(np.where(condition.handle.data, one, other), kind, _as(kind, condition.type))

    return chosen


def _side(given: Any, kind: Any, shape: Any) -> np.ndarray | None:
    """The numbers of one side of a choice of `kind`; None where they have to be converted."""
    if type(given) is not tl.core.tensor:
        return constant(given, kind)
    fits = given.dtype is kind and (given.shape is shape or not given.type.is_block())
    return given.handle.data if fits else None


def direct_operators() -> dict[tuple[Any, str], Callable[[Any], Any]]:
    """By whose function it is and its name: what makes the direct one out of the slow one."""
    methods = {(tl.core.tensor, name): make for name, make in _methods()}
    functions = {"where": _where} | {name: partial(_extreme, function) for name, function in _EXTREMES.items()}
    return methods | {(owner, name): make for name, make in functions.items() for owner in (tl, tl.core)}


def _methods() -> Iterator[tuple[str, Callable[[Operator], Operator]]]:
    yield "__truediv__", partial(_direct, np.divide, _FLOATS, _alike)
    yield "to", _cast
    yield "__getitem__", _index
    for names, kinds in ((_ARITHMETIC, _NUMBERS), (_LOGIC, _TRUTHS), (_WHOLE, _INTEGERS)):
        for name, function in names.items():
            yield f"__{name}__", partial(_direct, function, kinds, _alike)
            yield f"__r{name}__", partial(_turned, function, kinds)
    for name, function in _COMPARISONS.items():
        yield f"__{name}__", partial(_direct, function, _NUMBERS, _truth)
    for name, function in _SHIFTS.items():
        yield f"__{name}__", partial(_shift, function)
    yield "__add__", _advance
