"""What roll-outs show that teach nothing, prompts that the model was not trained on, losses that a clamp gives."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from llm_rl.core import MAX_LOG_RATIO
from llm_rl.rollout.pictures import tokenizer_of
from llm_rl.training.processes import is_first
from llm_rl.training.symptoms import Symptom, everywhere

logger = logging.getLogger(__name__)
CUT_OFF = Symptom(
    "truncated_frac",
    everywhere,
    "every completion was cut off before an end token",
    "raise max_completion_length, or start from a model that was fine-tuned to end with one of its end tokens "
    "(tokenizer.eos_token, model.generation_config.eos_token_id)",
)
NO_SPREAD = Symptom(
    "groups_without_spread",
    everywhere,
    "the rewards of no group differed, so that all advantages were 0",
    "take harder or easier prompts, raise num_generations, or have the reward functions tell completions apart "
    "(log_completions=True shows both); where all is solved, there is no more to learn",
)
CLAMPED = {"clamped_frac": "ratio of new to old", "kl_clamped_frac": "ratio to the reference"}
MARK = "a mark between"


def warn_of_text_prompts(rows: Sequence[Mapping[str, Any]], tokenizer: Any, template: Mapping[str, Any]) -> None:
    """Warns where the first prompt is a text that lacks what the tokenizer's chat template puts behind a message."""
    prompt, tokenizer = rows[0]["prompt"], tokenizer_of(tokenizer)
    if not (isinstance(prompt, str) and getattr(tokenizer, "chat_template", None) and is_first()):
        return
    message = {"role": "user", "content": MARK}
    try:
        written = tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True, **template)
    except Exception:  # a template for messages of another kind: what it writes is not known
        return
    if written.partition(MARK)[2].strip() not in prompt:
        logger.warning(
            "prompts are texts, such as %r, and the model reads them as they are, though its tokenizer has a chat "
            "template; give messages, [{'role': 'user', 'content': …}] (of RARO prompt_format='chat'), or if the "
            "model was not trained on the template, leave it out by tokenizer.chat_template = None",
            prompt[:80],
        )


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
