"""Pages whose prose is a file in Markdown beside the program that makes them."""

from collections.abc import Mapping
from pathlib import Path
from string import Formatter


def fill(page: Path, tables: Mapping[str, object]) -> str:
    """A page, each marker replaced by its table.

    Args:
        page: Text with markers as `str.format` reads them: `{NAME}`, `{NAME:,}` or `{NAME.ATTRIBUTE[KEY]}`.
        tables: What stands there, by name; of a text without its last line break, which the page has.

    Raises:
        ValueError: A marker has no table, or a table no marker.
    """
    text = page.read_text(encoding="utf-8")
    markers = {name.split(".")[0].split("[")[0] for _, name, _, _ in Formatter().parse(text) if name is not None}
    if odd := sorted(markers ^ tables.keys()):
        raise ValueError(f"{page} needs a marker for each table and a table for each marker; only one has {odd}")
    return text.format_map({name: t.removesuffix("\n") if isinstance(t, str) else t for name, t in tables.items()})
