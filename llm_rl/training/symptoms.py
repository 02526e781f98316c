"""What is wrong without an error: metrics that stay where nothing is learned, told once a run with what to do."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

logger = logging.getLogger(__name__)


class Symptom(NamedTuple):
    """Something wrong that log lines show: `is_wrong` of the mean of `metric` less `minus` over several.

    `says` is what that means, `remedy` what to do; an empty `minus` is none.
    """

    metric: str
    is_wrong: Callable[[float], bool]
    says: str
    remedy: str
    minus: str = ""


def everywhere(share: float) -> bool:
    """Whether a share was 1 in each of the lines."""
    return share >= 1


class SymptomWarnings:
    """Warns once of each symptom that the mean of the latest log lines has, for a line alone is noisy.

    The latest are `patience` lines; those without the metric are not counted.
    """

    def __init__(self, symptoms: Sequence[Symptom], patience: int = 10) -> None:
        self.patience = patience
        self._latest: dict[Symptom, deque[float]] = {one: deque(maxlen=patience) for one in symptoms}

    def check(self, line: Mapping[str, float]) -> None:
        """Look at a log line."""
        for symptom, latest in list(self._latest.items()):
            metric, is_wrong, says, remedy, minus = symptom
            if metric not in line or (minus and minus not in line):
                continue
            latest.append(line[metric] - (line[minus] if minus else 0))
            if len(latest) == self.patience and is_wrong(mean := sum(latest) / self.patience):
                del self._latest[symptom]
                name = f"{metric} − {minus}" if minus else metric
                logger.warning("%s (%s = %.3g, the mean of %d log lines); %s", says, name, mean, self.patience, remedy)
