"""A word where a logged loss is but the value of a clamp."""

import logging
import math
from collections.abc import Mapping

from llm_rl.core import MAX_LOG_RATIO

logger = logging.getLogger(__name__)
CLAMPED = {"clamped_frac": "ratio of new to old", "kl_clamped_frac": "ratio to the reference"}


def warn_of_clamps(line: Mapping[str, float], step: int) -> None:
    """Warns where log-ratios of a line's tokens are cut off at ±20: e^20 is 5e8, and a loss of 1e8 says just that."""
    for name, what in CLAMPED.items():
        if line.get(name, 0) > 0:
            logger.warning(
                "step %d: the %s is at its clamp of e^±%d (%.1e) for %.2g %% of the tokens (%s), so that loss and "
                "divergence of this line tell the clamp and not the policy; lower the learning rate, or go back to an "
                "earlier checkpoint",
                step,
                what,
                MAX_LOG_RATIO,
                math.exp(MAX_LOG_RATIO),
                100 * line[name],
                name,
            )
