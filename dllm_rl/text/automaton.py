"""Deterministic automata over tokens, and in which of their states an answer can be where some positions are masked.

Of an answer v_1 … v_R with masks, before position i the automaton can be in the states

    F_0 = {first}     F_i = { δ(s, v) : s ∈ F_{i−1}, v = v_i, or any token where v_i is masked }     forward
    B_R = final       B_{i−1} = { s : δ(s, v) ∈ B_i for v = v_i, or for some token }                 backward

as far as what stands to the left, or to the right, tells. The answer is completable where F_i and B_i meet, for one i
as for all, and a token v may stand at position i where δ(s, v) ∈ B_i for some s ∈ F_{i−1}. Sets are bits in words. A
token that is written changes F to its right alone and B to its left, each until nothing changes. Tokens that move alike
from every state are of one *kind*: in the middle of a text nearly all of a vocabulary are.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.int64]
BIT = np.uint64(1) << np.arange(64, dtype=np.uint64)


class Automaton:
    """An automaton, cut down to the states on a way from the first to a final one.

    Args:
        moves: State → token → next state.
        first: The state before an answer.
        final: The states in which an answer may end.

    Attributes:
        kinds: int32 `(V,)`, the kind of each token up to the largest that moves; 0 moves nowhere.
        first: uint64 words, the set of the first state, empty where no way leads to a final one.
        final: uint64 words, the set of the final ones.
        ahead: What kernels read forward: kinds, where in the next two the moves of each kind begin, the state that each
            leaves and the one that it leads to, int32, one a move, and the states after each state, as sets.
        back: The same, backward.
    """

    def __init__(self, moves: Mapping[int, Mapping[int, int]], first: int, final: Collection[int]) -> None:
        triples = ((state, token, after) for state, out in moves.items() for token, after in out.items())
        source, token, target = np.fromiter(triples, np.dtype((np.int64, 3))).T
        useful = _reached(source, target, [first]) & _reached(target, source, final)
        names = np.array(sorted(useful), np.int64)
        kept = np.isin(source, names) & np.isin(target, names)
        source, token, target = np.searchsorted(names, source[kept]), token[kept], np.searchsorted(names, target[kept])

        # The moves of each token in the order of states; tokens with the same ones share a kind.
        order = np.lexsort((source, token))
        pairs = np.stack([source[order], target[order]], axis=1).astype(np.int32)
        tokens, begins = np.unique(token[order], return_index=True)
        self.kinds = np.zeros(int(tokens.max(initial=-1)) + 1, np.int32)
        numbers, parts = dict[bytes, int](), [pairs[:0]]
        for each, part in zip(tokens.tolist(), np.split(pairs, begins[1:]), strict=False):
            self.kinds[each] = number = numbers.setdefault(part.tobytes(), len(parts))
            parts += [part] * (number == len(parts))
        starts = np.cumsum([0, *map(len, parts)])
        here, there = np.ascontiguousarray(np.concatenate(parts).T)

        onward, before = np.zeros((2, len(names), len(names) // 64 + 1), np.uint64)
        np.bitwise_or.at(onward, (here, there >> 6), BIT[there & 63])
        np.bitwise_or.at(before, (there, here >> 6), BIT[here & 63])
        self.ahead = (self.kinds, starts, here, there, onward)
        self.back = (self.kinds, starts, there, here, before)
        self.first, self.final = np.zeros((2, onward.shape[1]), np.uint64)
        for states, chosen in ((self.first, [first]), (self.final, final)):
            places = np.searchsorted(names, sorted({*chosen} & useful))
            np.bitwise_or.at(states, places >> 6, BIT[places & 63])


def _reached(source: Numbers, target: Numbers, begin: Collection[int]) -> set[int]:
    """The states to which moves lead from some, and these."""
    base = 1 + max(source.max(initial=0), target.max(initial=0))
    source, target = np.divmod(np.unique(source * base + target), base)
    found, new = set(begin), set(begin)
    while new:
        new = set(target[np.isin(source, list(new))].tolist()) - found
        found |= new
    return found


class Sets:
    """F and B of answers that are written on: the `Look` of a pattern (`dllm_rl.decoding.settings`).

    Args:
        automaton: The automaton.
        answers: int64 `(A, R)`.
        mask: The mask token.
    """

    def __init__(self, automaton: Automaton, answers: Tensor, mask: int) -> None:
        self.automaton, self.answers, self.mask = automaton, answers.cpu().numpy().copy(), mask
        shape = (answers.shape[0], answers.shape[1] + 1, len(automaton.first))
        self.forward, self.backward = np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
        self.forward[:, 0], self.backward[:, -1] = automaton.first, automaton.final
        _fill(self.answers, mask, self.forward, self.backward, automaton.ahead, automaton.back)

    def completable(self) -> Tensor:
        """Which answers can be completed, bool `(A,)` on the CPU."""
        return torch.from_numpy(np.any(self.backward[:, 0] & self.automaton.first, axis=1))

    def tokens(self, rows: Tensor, positions: Tensor, count: int) -> Tensor:
        """See `Look.tokens`."""
        places = rows.cpu().numpy(), positions.cpu().numpy()
        may = torch.from_numpy(_kinds(self.forward, self.backward, self.automaton.ahead, *places)).to(rows.device)
        kinds = torch.from_numpy(self.automaton.kinds[:count]).to(rows.device)
        return torch.cat([may[:, kinds], may.new_zeros(len(rows), count - len(kinds))], dim=1)

    def write(self, rows: Tensor, positions: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """See `Look.write`."""
        where = (each.cpu().numpy() for each in (rows, positions, tokens))
        ways = (self.automaton.ahead, self.automaton.back)
        found = _write(self.answers, self.mask, self.forward, self.backward, *ways, *where)
        written, which = (torch.from_numpy(each).to(rows.device) for each in found)
        return written, which


@numba.njit
def _has(bits: Any, state: Any) -> Any:  # pragma: no cover - compiled
    return bits[state >> 6] >> np.uint64(state & 63) & np.uint64(1) != 0


@numba.njit
def _mend(answer: Any, mask: Any, sets: Any, position: Any, sign: Any, way: Any) -> None:  # pragma: no cover - compiled
    """Set right the sets of one answer from a position on, to the right or to the left, until nothing changes."""
    kinds, starts, here, there, links = way
    found = np.empty_like(sets[0])
    while 0 <= position < len(answer):
        known, after = (position, position + 1) if sign > 0 else (position + 1, position)
        states, token = sets[known], answer[position]
        found[:] = 0
        if token == mask:
            for state in range(len(links)):
                if _has(states, state):
                    for word in range(len(found)):
                        found[word] |= links[state, word]
        elif 0 <= token < len(kinds):
            for move in range(starts[kinds[token]], starts[kinds[token] + 1]):
                if _has(states, here[move]):
                    found[there[move] >> 6] |= np.uint64(1) << np.uint64(there[move] & 63)
        changed = False
        for word in range(len(found)):
            changed |= found[word] != sets[after, word]
            sets[after, word] = found[word]
        position = position + sign if changed else -1


@numba.njit
def _fill(answers: Any, mask: Any, forward: Any, backward: Any, ahead: Any, back: Any) -> None:  # pragma: no cover
    for row in range(len(answers)):  # sets not at the ends are empty, and what leads nowhere stays so
        _mend(answers[row], mask, forward[row], 0, 1, ahead)
        _mend(answers[row], mask, backward[row], answers.shape[1] - 1, -1, back)


@numba.njit
def _fits(states: Any, after: Any, kind: Any, ahead: Any) -> Any:  # pragma: no cover - compiled
    _, starts, here, there, _ = ahead
    for move in range(starts[kind], starts[kind + 1]):
        if _has(states, here[move]) and _has(after, there[move]):
            return True
    return False


@numba.njit
def _kinds(forward: Any, backward: Any, ahead: Any, rows: Any, positions: Any) -> Any:  # pragma: no cover - compiled
    found = np.zeros((len(rows), len(ahead[1]) - 1), np.bool_)
    for each in range(len(rows)):
        row, position = rows[each], positions[each]
        for kind in range(found.shape[1]):
            found[each, kind] = _fits(forward[row, position], backward[row, position + 1], kind, ahead)
    return found


@numba.njit
def _write(
    answers: Any, mask: Any, forward: Any, backward: Any, ahead: Any, back: Any, rows: Any, positions: Any, tokens: Any
) -> Any:  # pragma: no cover - compiled
    written, which = np.zeros(len(rows), np.bool_), tokens[:, 0].copy()
    for each in range(len(rows)):
        row, position = rows[each], positions[each]
        for token in tokens[each]:
            kind = ahead[0][token] if 0 <= token < len(ahead[0]) and token != mask else 0
            if _fits(forward[row, position], backward[row, position + 1], kind, ahead):
                written[each], which[each], answers[row, position] = True, token, token
                _mend(answers[row], mask, forward[row], position, 1, ahead)
                _mend(answers[row], mask, backward[row], position, -1, back)
                break
    return written, which
