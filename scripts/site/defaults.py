"""Signatures on the site: of an option its default alone, as of any other field."""

from typing import Any

from griffe import Attribute, ExprCall, Extension


class OptionDefaults(Extension):
    """Takes an option's default out of the call that also holds its help."""

    def on_attribute_instance(self, *, attr: Attribute, **kwargs: Any) -> None:
        """Of `option(default, help)` leave the default."""
        if isinstance(attr.value, ExprCall) and str(attr.value.function) == "option":
            attr.value = attr.value.arguments[0]
