"""Where compiled kernels are kept: a folder that is named after all that they are compiled from."""

import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import numba
from numba.core import config
from numba.misc.appdirs import AppDirs

KERNELS = Path(__file__).parent
SOURCES = (*sorted(KERNELS.glob("*.py")), KERNELS.parent / "board.py")
"""All kernels, and the module whose tables are compiled into them."""
NAME = "sudoku_env_kernels"
KEPT = 3
"""Folders of other sources that stay beside the one in use: those of other versions that are used in turn."""


def sources_key() -> str:
    """A name that changes with any source of a kernel and with the version of numba."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in SOURCES:
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:20]


@cache
def cache_folder() -> Path | None:
    """The folder for compiled kernels, made when first asked for; None, with a warning, where none can be written.

    Taken is the first of these that can be written, and in it a folder named after `sources_key`:

    - numba's `NUMBA_CACHE_DIR`, where it is set; with a warning where that cannot be written;
    - `__pycache__` beside the kernels;
    - the user's cache folder;
    - the folder for temporary files, in a folder of the user's own that nobody else can write, with a warning: code
      is run from there.

    Of folders of other sources the last `KEPT` in use stay.
    """
    for root in _roots():
        folder = root / NAME / sources_key()
        try:
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
            if is_new:
                _remove_stale(folder)
        except OSError as error:
            if root == Path(getattr(config, "CACHE_DIR", "")):
                _warn(f"NUMBA_CACHE_DIR is {root}, where no compiled kernels can be kept ({error}); others are tried")
            continue
        return folder
    nowhere = "no folder for compiled kernels can be written, neither beside sudoku_env nor in the user's cache"
    if (temporary := _temporary_folder()) is not None:
        _warn(f"{nowhere}; they are kept in {temporary}")
        return temporary
    _warn(f"{nowhere}; each process compiles them anew, which takes up to two minutes")
    return None


def _roots() -> Iterator[Path]:
    if chosen := getattr(config, "CACHE_DIR", ""):
        yield Path(chosen)
    yield KERNELS / "__pycache__"
    yield Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)


def _temporary_folder() -> Path | None:
    """A folder below that for temporary files, if it is the user's own and closed to others."""
    owner = os.getuid() if hasattr(os, "getuid") else None
    try:
        own = Path(tempfile.gettempdir()) / (NAME if owner is None else f"{NAME}_{owner}")
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
        if not stat.S_ISDIR(found.st_mode) or (owner is not None and (found.st_uid != owner or found.st_mode & 0o077)):
            return None
        folder = own / sources_key()
        folder.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder


def _remove_stale(folder: Path) -> None:
    """Remove what has not been used for long; another process may be doing the same."""
    with suppress(OSError):
        others = sorted((other.stat().st_mtime, other) for other in folder.parent.iterdir() if other != folder)
        for _, stale in others[:-KEPT]:
            shutil.rmtree(stale, ignore_errors=True)


def _warn(said: str) -> None:
    warnings.warn(f"{said}. Set NUMBA_CACHE_DIR to a folder that can be written", RuntimeWarning, stacklevel=3)
