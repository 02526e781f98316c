"""Slow and plain: each rule of the ladder as the set of all its eliminations, by trying every combination.

Shares no code with the package. A state is a list of candidate sets, empty for filled cells. Patterns are proper ones:
cells with at least two candidates, digits with at least two places.
"""

from itertools import combinations, permutations

from tests.sudoku_env.helpers import sudoku_reference as reference


class State:
    def __init__(self, options):
        self.options = [set(option) for option in options]
        self.n = int(len(self.options) ** 0.5)
        self.units = reference.units(self.n)
        of = [{u for u, unit in enumerate(self.units) if cell in unit} for cell in range(self.n**2)]
        self.sees = [[a != b and bool(of[a] & of[b]) for b in range(self.n**2)] for a in range(self.n**2)]

    def places(self, unit, digit):
        return {cell for cell in unit if digit in self.options[cell]}

    def having(self, cells, digits):
        return {(cell, digit) for cell in cells for digit in digits if digit in self.options[cell]}

    def seen_by_all(self, *cells):
        return [other for other in range(self.n**2) if all(self.sees[cell][other] for cell in cells)]

    def cells_with(self, count):
        return [cell for cell in range(self.n**2) if len(self.options[cell]) == count]

    def eliminate(self, pairs):
        for cell, digit in pairs:
            self.options[cell].discard(digit)

    def write(self, cell, digit):
        self.options[cell] = set()
        self.eliminate((peer, digit) for peer in self.seen_by_all(cell))


def _locked(state, sources, targets):
    found = set()
    for source in sources:
        for target in targets:
            for digit in range(1, state.n + 1):
                places = state.places(source, digit)
                if len(places) >= 2 and places <= set(target):
                    found |= state.having(set(target) - places, [digit])
    return found


def pointing(state):
    return _locked(state, state.units[2 * state.n :], state.units[: 2 * state.n])


def claiming(state):
    return _locked(state, state.units[: 2 * state.n], state.units[2 * state.n :])


def naked(state, k):
    found = set()
    for unit in state.units:
        for cells in combinations([cell for cell in unit if 2 <= len(state.options[cell]) <= k], k):
            digits = set().union(*(state.options[cell] for cell in cells))
            if len(digits) == k:
                found |= state.having(set(unit) - set(cells), digits)
    return found


def hidden(state, k):
    found = set()
    for unit in state.units:
        digits = [digit for digit in range(1, state.n + 1) if 2 <= len(state.places(unit, digit)) <= k]
        for chosen in combinations(digits, k):
            cells = set().union(*(state.places(unit, digit) for digit in chosen))
            if len(cells) == k:
                found |= state.having(cells, set(range(1, state.n + 1)) - set(chosen))
    return found


def fish(state, k):
    found, n = set(), state.n
    rows, columns = state.units[:n], state.units[n : 2 * n]
    for digit in range(1, n + 1):
        for base, cover in ((rows, columns), (columns, rows)):
            lines = [line for line in base if 2 <= len(state.places(line, digit)) <= k]
            for chosen in combinations(lines, k):
                places = set().union(*(state.places(line, digit) for line in chosen))
                crossing = [line for line in cover if places & set(line)]
                if len(crossing) == k:
                    found |= state.having(set().union(*crossing) - set().union(*chosen), [digit])
    return found


def _pincers(state, pivot):
    near = [cell for cell in state.cells_with(2) if state.sees[pivot][cell]]
    for a, b in combinations(near, 2):
        one, other = state.options[a], state.options[b]
        if len(one & other) == 1:
            yield a, b, one ^ other, one & other


def xy_wing(state):
    found = set()
    for pivot in state.cells_with(2):
        for a, b, outer, shared in _pincers(state, pivot):
            if state.options[pivot] == outer:
                found |= state.having(state.seen_by_all(a, b), shared)
    return found


def xyz_wing(state):
    found = set()
    for pivot in state.cells_with(3):
        for a, b, outer, shared in _pincers(state, pivot):
            if state.options[pivot] == outer | shared:
                found |= state.having(state.seen_by_all(pivot, a, b), shared)
    return found


def w_wing(state):
    found = set()
    for a, b in permutations(state.cells_with(2), 2):
        if state.options[a] != state.options[b] or state.sees[a][b]:
            continue
        for x in state.options[a]:
            for unit in state.units:
                places = state.places(unit, x)
                if len(places) == 2 and any(state.sees[a][p] and state.sees[b][q] for p, q in permutations(places)):
                    found |= state.having(state.seen_by_all(a, b), state.options[a] - {x})
    return found


def turbot_fish(state):
    found = set()
    for digit in range(1, state.n + 1):
        pairs = {frozenset(state.places(unit, digit)) for unit in state.units}
        pairs = [pair for pair in pairs if len(pair) == 2]
        for one, other in combinations(pairs, 2):
            for (a, b), (c, d) in ((p, q) for p in permutations(one) for q in permutations(other)):
                if len({a, b, c, d}) == 4 and state.sees[b][c]:
                    found |= state.having(state.seen_by_all(a, d), [digit])
    return found


ELIMINATIONS = {
    "pointing": pointing,
    "claiming": claiming,
    "naked_pair": lambda state: naked(state, 2),
    "hidden_pair": lambda state: hidden(state, 2),
    "naked_triple": lambda state: naked(state, 3),
    "hidden_triple": lambda state: hidden(state, 3),
    "naked_quad": lambda state: naked(state, 4),
    "hidden_quad": lambda state: hidden(state, 4),
    "x_wing": lambda state: fish(state, 2),
    "swordfish": lambda state: fish(state, 3),
    "jellyfish": lambda state: fish(state, 4),
    "xy_wing": xy_wing,
    "xyz_wing": xyz_wing,
    "w_wing": w_wing,
    "turbot_fish": turbot_fish,
}


def singles(state, hidden_too):
    """Naked and perhaps hidden singles as (cell, digit)."""
    found = {(cell, next(iter(option))) for cell, option in enumerate(state.options) if len(option) == 1}
    if hidden_too:
        for unit in state.units:
            for digit in range(1, state.n + 1):
                places = state.places(unit, digit)
                if len(places) == 1:
                    found.add((places.pop(), digit))
    return found


def definite(board, rules):
    """Definite cells as {cell: digit}: rounds of the easiest rule among `rules`, all its eliminations at once."""
    state = State(reference.candidates(board))
    while any(found := ELIMINATIONS[rule](state) for rule in rules):
        state.eliminate(found)
    return dict(singles(state, True))


def solves(board, rules):
    """Whether the rules fill a board that has a solution: whatever any of them finds, in no special order."""
    state = State(reference.candidates(board))
    blank = {cell for cell, digit in enumerate(board) if digit == 0}
    while blank:
        placed = singles(state, "hidden_single" in rules)
        for cell, digit in placed:
            if cell in blank:
                state.write(cell, digit)
                blank.discard(cell)
        if not placed:
            removed = set().union(*(ELIMINATIONS[rule](state) for rule in rules if rule in ELIMINATIONS))
            if not removed:
                return False
            state.eliminate(removed)
    return True
