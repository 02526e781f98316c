"""Eight uint32 numbers that kernels treat as one value, so that one machine instruction works on all eight (SIMD).

A value of the numba type `Lanes` supports `& | ^ ~ + - << >>` with another one or with a `np.uint32`; it lives in a
register of 256 bits where the machine has them and in several smaller ones where it has not. Outside kernels it does
not exist. The functions here are numba intrinsics and have no Python implementation.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import errors
from numba.core.datamodel import models
from numba.extending import lower_builtin, register_model, type_callable

LANES = 8
# Kernels call an intrinsic without the typing context, which type checkers cannot know.
intrinsic: Any = extending.intrinsic
_WORD = ir.IntType(32)
_VECTOR = ir.VectorType(_WORD, LANES)
_NONE = ir.Constant(_VECTOR, ir.Undefined)


class LanesType(types.Type):
    """Numba type of eight uint32 lanes."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


def _indices(order: list[int]) -> ir.Constant:
    return ir.Constant(_VECTOR, order)


def _splat(builder: Any, word: Any) -> Any:
    first = builder.insert_element(_NONE, word, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, _NONE, _indices([0] * LANES))


def _binary(function: Callable[..., Any], instruction: str) -> None:
    @type_callable(function)
    def type_it(context: Any) -> Any:
        def infer(left: Any, right: Any) -> Any:
            if isinstance(left, LanesType) and (isinstance(right, LanesType) or right == types.uint32):
                return lanes
            return None

        return infer

    @lower_builtin(function, LanesType, LanesType)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    @lower_builtin(function, LanesType, types.uint32)
    def lower_word(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(args[0], _splat(builder, args[1]))


for _function, _instruction in (
    (operator.and_, "and_"),
    (operator.or_, "or_"),
    (operator.xor, "xor"),
    (operator.add, "add"),
    (operator.sub, "sub"),
    (operator.lshift, "shl"),
    (operator.rshift, "lshr"),
):
    _binary(_function, _instruction)


@type_callable(operator.invert)
def _type_invert(context: Any) -> Any:
    def infer(value: Any) -> Any:
        return lanes if isinstance(value, LanesType) else None

    return infer


@lower_builtin(operator.invert, LanesType)
def _lower_invert(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.not_(args[0])


def _literal(value: Any, what: str) -> int:
    if not isinstance(value, types.IntegerLiteral):
        raise errors.RequireLiteralValue(f"{what} must be a constant")
    return int(value.literal_value)


def _address(context: Any, builder: Any, signature: Any, args: Any, vector: Any) -> Any:
    """Pointer to a vector that starts at element `args[1]` of the array `args[0]`."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    index = context.cast(builder, args[1], signature.args[1], types.intp)
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


@intrinsic
def load(typing_context: Any, words: Any, start: Any) -> Any:
    """`load(words, start)`: the lanes `words[start : start + 8]` of a contiguous uint32 array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature, args, _VECTOR), align=4)

    return lanes(words, start), generate


@intrinsic
def store(typing_context: Any, words: Any, start: Any, value: Any) -> Any:
    """`store(words, start, value)`: write the lanes to `words[start : start + 8]`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature, args, _VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(words, start, value), generate


@intrinsic
def swapped(typing_context: Any, value: Any, by: Any) -> Any:
    """`swapped(value, by)`: lane k of the result is lane k XOR `by`, a constant 1, 2 or 4.

    Within four lanes, `by` 1 or 2, that is one instruction of one cycle; a rotation of all lanes takes three to eight.
    """
    distance = _literal(by, "the distance of the lanes to swap")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.shuffle_vector(args[0], _NONE, _indices([k ^ distance for k in range(LANES)]))

    return lanes(value, by), generate


def _halves(first_lane: int) -> Callable[..., Any]:
    def join(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            four = range(first_lane, first_lane + LANES // 2)
            return builder.shuffle_vector(args[0], args[1], _indices([*four, *(LANES + k for k in four)]))

        return lanes(a, b), generate

    return join


low_halves = intrinsic(_halves(0))
"""`low_halves(a, b)`: the first four lanes of a, then those of b."""
high_halves = intrinsic(_halves(LANES // 2))
"""`high_halves(a, b)`: the last four lanes of a, then those of b."""


@intrinsic
def broadcast(typing_context: Any, value: Any, lane: Any) -> Any:
    """`broadcast(value, lane)`: one lane, a constant, in all lanes."""
    source = _literal(lane, "the lane to broadcast")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.shuffle_vector(args[0], _NONE, _indices([source] * LANES))

    return lanes(value, lane), generate


@intrinsic
def first_of(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """`first_of(a, b, c)`: the first lanes of three values in lanes 0, 1 and 2, and 0 in the others."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        two = builder.shuffle_vector(args[0], args[1], _indices([0, LANES] + [0] * 6))
        three = builder.shuffle_vector(two, args[2], _indices([0, 1, LANES] + [0] * 5))
        return builder.and_(three, _indices([0xFFFFFFFF] * 3 + [0] * 5))

    return lanes(a, b, c), generate


@intrinsic
def constant(typing_context: Any, a: Any, b: Any, c: Any, rest: Any) -> Any:
    """`constant(a, b, c, rest)`: constants in lanes 0, 1 and 2, and `rest` in the others."""
    values = [_literal(value, "a lane") for value in (a, b, c)] + [_literal(rest, "a lane")] * 5

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _indices(values)

    return lanes(a, b, c, rest), generate


@intrinsic
def first(typing_context: Any, value: Any) -> Any:
    """`first(value)`: the first lane, uint32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], ir.Constant(_WORD, 0))

    return types.uint32(value), generate


@intrinsic
def zero_lanes(typing_context: Any, value: Any) -> Any:
    """`zero_lanes(value)`: uint32 whose bit k says that lane k is 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = builder.icmp_unsigned("==", args[0], _indices([0] * LANES))
        return builder.zext(builder.bitcast(zero, ir.IntType(LANES)), _WORD)

    return types.uint32(value), generate


@intrinsic
def equal_bytes(typing_context: Any, cells: Any, start: Any, byte: Any) -> Any:
    """`equal_bytes(cells, start, byte)`: uint32 whose bit k says that `cells[start + k]`, uint8, is the byte."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 32)
        none = ir.Constant(vector, ir.Undefined)
        values = builder.load(_address(context, builder, signature, args, vector), align=1)
        byte = builder.insert_element(none, args[2], ir.Constant(_WORD, 0))
        same = builder.icmp_unsigned(
            "==", values, builder.shuffle_vector(byte, none, ir.Constant(ir.VectorType(_WORD, 32), [0] * 32))
        )
        return builder.bitcast(same, _WORD)

    return types.uint32(cells, start, types.uint8), generate


@intrinsic
def count_ones(typing_context: Any, word: Any) -> Any:
    """`count_ones(word)`: number of bits set in an integer, as int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, builder.ctpop(args[0]), signature.args[0], types.int64)

    return types.int64(word), generate


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """`lowest_bit(word)`: index of the lowest bit set in an integer other than 0, as int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))
        return context.cast(builder, index, signature.args[0], types.int64)

    return types.int64(word), generate
