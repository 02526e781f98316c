"""Arguments of a script from dataclasses: a YAML file first, the command line over it."""

import sys
from pathlib import Path
from typing import Any

import yaml
from transformers import HfArgumentParser


def parse(*classes: Any) -> tuple[Any, ...]:
    """Instances of dataclasses from the command line, over those of a YAML file if the first word names one.

    Unknown keys of the file end the program with a message, as unknown words do.
    """
    parser = HfArgumentParser(classes)
    words = sys.argv[1:]
    if words and words[0].endswith((".yaml", ".yml")):
        recipe = yaml.safe_load(Path(words.pop(0)).read_text(encoding="utf-8")) or {}
        known = {action.dest for action in parser._actions}
        if unknown := sorted(set(recipe) - known):
            parser.error(f"the recipe has unknown keys {unknown}; see --help")
        parser.set_defaults(**recipe)
    return parser.parse_args_into_dataclasses(args=words)
