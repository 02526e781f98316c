import numpy as np
from numba import njit

from sudoku_env.kernels import lanes

WORDS = np.random.default_rng(0).integers(0, 2**32, 24, dtype=np.uint32)
A, B, C = WORDS[:8], WORDS[8:16], WORDS[16:]


@njit
def arithmetic(words, out):
    a, b, word = lanes.load(words, 0), lanes.load(words, 8), words[17]
    lanes.store(out, 0, a & b)
    lanes.store(out, 8, a | b)
    lanes.store(out, 16, a ^ b)
    lanes.store(out, 24, a + b)
    lanes.store(out, 32, a - b)
    lanes.store(out, 40, ~a)
    lanes.store(out, 48, a << np.uint32(3))
    lanes.store(out, 56, a >> np.uint32(3))
    lanes.store(out, 64, (a & word) + word)
    lanes.store(out, 72, a << (b & np.uint32(31)))


def test_arithmetic():
    out = np.zeros(80, np.uint32)
    arithmetic(WORDS, out)
    word = WORDS[17]
    three = np.uint32(3)
    expected = [A & B, A | B, A ^ B, A + B, A - B, ~A, A << three, A >> three, (A & word) + word, A << (B & 31)]
    assert (out.reshape(10, 8) == np.array(expected)).all()


@njit
def moves(words, out):
    a, b, c = lanes.load(words, 0), lanes.load(words, 8), lanes.load(words, 16)
    lanes.store(out, 0, lanes.swapped(a, 1))
    lanes.store(out, 8, lanes.broadcast(a, 5))
    lanes.store(out, 16, lanes.first_of(a, b, c))
    lanes.store(out, 24, lanes.constant(7, 8, 9, 31))
    lanes.store(out, 32, lanes.swapped(a, 4))
    lanes.store(out, 40, lanes.low_halves(a, b))
    lanes.store(out, 48, lanes.high_halves(a, b))
    return lanes.first(b)


def test_moves():
    out = np.zeros(56, np.uint32)
    assert moves(WORDS, out) == B[0]
    expected = [
        A[[1, 0, 3, 2, 5, 4, 7, 6]], np.full(8, A[5]), [A[0], B[0], C[0], 0, 0, 0, 0, 0], [7, 8, 9, 31, 31, 31, 31, 31],
        np.roll(A, 4), np.concatenate([A[:4], B[:4]]), np.concatenate([A[4:], B[4:]]),
    ]  # fmt: skip
    assert (out.reshape(7, 8) == np.array(expected)).all()


@njit
def bits_of(words, cells):
    word = words[1]
    zeros = lanes.zero_lanes(lanes.load(words, 0) & np.uint32(1))
    return zeros, lanes.count_ones(word), lanes.lowest_bit(word), lanes.equal_bytes(cells, 2, np.uint8(3))


def test_bits():
    cells = np.random.default_rng(1).integers(0, 5, 40, dtype=np.uint8)
    zeros, ones, lowest, equal = bits_of(WORDS, cells)
    assert zeros == sum(1 << k for k in range(8) if A[k] % 2 == 0)
    assert ones == int(A[1]).bit_count() and lowest == (int(A[1]) & -int(A[1])).bit_length() - 1
    assert equal == sum(1 << k for k in range(32) if cells[2 + k] == 3)
