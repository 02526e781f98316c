"""Tiny random models that see pictures, of two families, and their processors, built without a file."""

import copy
from functools import cache
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    ProcessorMixin,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLProcessor,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.llm_rl.helpers.tiny_grpo import WORDS, new_model, tokenizer

MARKS = ("<|image_pad|>", "<|video_pad|>")
CHAT = (
    "{% for message in messages %}{{ message['role'] }} {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|image_pad|> {% else %}{{ part['text'] }}{% endif %}{% endfor %} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)
FAMILIES = ("llava", "qwen2_vl")
"""Pictures as a fixed number of patches, and as grids of their own size."""


class GridProcessor(Qwen2VLProcessor):
    """Qwen2-VL's without videos, which need torchvision."""

    def __init__(self, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None) -> None:
        self.image_token, self.video_token = MARKS
        self.image_token_id, self.video_token_id = tokenizer.convert_tokens_to_ids(list(MARKS))
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)


@cache
def processor(family: str) -> Any:
    """The processor of a family."""
    words = copy.deepcopy(tokenizer())
    words.padding_side = "left"  # TRL asks for it
    words.add_tokens([*MARKS], special_tokens=True)
    if family == "llava":
        size = {"height": 8, "width": 8}
        images: Any = CLIPImageProcessorPil(size=size, crop_size=size)
        return LlavaProcessor(
            images, words, patch_size=4, vision_feature_select_strategy="full", chat_template=CHAT, image_token=MARKS[0]
        )
    sides = {"shortest_edge": 64, "longest_edge": 400}
    images = Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, temporal_patch_size=1, size=sides)
    return GridProcessor(images, words, chat_template=CHAT)


def seeing_model(family: str, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """A model of a family, whose text part is as `tiny_grpo.new_model`."""
    text = {**new_model().config.to_dict(), "vocab_size": len(processor(family).tokenizer), "num_hidden_layers": 1}
    eyes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "initializer_range": 0.2}
    image, video = processor(family).tokenizer.convert_tokens_to_ids(list(MARKS))
    torch.manual_seed(seed)
    if family == "llava":
        vision: Any = CLIPVisionConfig(**eyes, num_hidden_layers=1, image_size=8, patch_size=4)
        config: Any = LlavaConfig(
            vision_config=vision,
            text_config=LlamaConfig(**text),
            image_token_id=image,
            vision_feature_layer=-1,
            vision_feature_select_strategy="default",
        )
        return LlavaForConditionalGeneration(config).to(dtype)
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    text.pop("model_type")
    vision = {"embed_dim": 16, "hidden_size": 32, "num_heads": 2, "depth": 1, "patch_size": 4, "temporal_patch_size": 1}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, image_token_id=image, video_token_id=video)
    return Qwen2VLForConditionalGeneration(config).to(dtype)


def picture(number: int, height: int = 12, width: int = 12) -> Image.Image:
    """A picture of noise."""
    pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with "images" and a text as rows whose message has both."""
    parts = ([*({"type": "image", "image": image} for image in row["images"]), row["prompt"][0]] for row in rows)
    return [
        {"prompt": [{"role": "user", "content": [*images, {"type": "text", "text": text["content"]}]}]}
        for *images, text in parts
    ]


def seeing_rows(count: int = 4) -> list[dict[str, Any]]:
    """Prompts with pictures of several sizes, the last one with two. All texts are the same."""
    message = {"role": "user", "content": WORDS[0]}
    pictures = [[picture(number, 12 * (1 + number % 2))] for number in range(count)]
    pictures[-1].append(picture(9))
    return shown([{"prompt": [message], "images": images} for images in pictures])
