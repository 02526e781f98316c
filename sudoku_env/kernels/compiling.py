"""`kernel`, numba's `njit` with a cache on disk that neither a changed file nor a damaged one can mislead.

Numba's own cache watches the file of the function that it compiled and no other, fails on a damaged file, can mix up
two processes that compile one function for different types at once, and needs a folder that can be written. Here a
compiled function has one file, named after its types and all sources of kernels, that begins with a checksum.
"""

import hashlib
import logging
import os
import pickle  # nosec B403 # own files in a folder of the user's, see SECURITY.md
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.serialize import dumps

from sudoku_env.kernels.cache_folder import cache_folder, sources_key

logger = logging.getLogger(__name__)
CHECKSUM = hashlib.sha256().digest_size


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function when it is called first, and keep it on disk; with or without `njit`'s options.

    The folder is `cache_folder`. A file that is damaged is removed and compiled again. When a process compiles its
    first kernel, this module's logger says so in a warning, which Python writes to stderr where nobody has set up
    logging; `logging.getLogger("sudoku_env").setLevel(logging.ERROR)` silences it.
    """
    if function is None:
        return lambda function: kernel(function, **options)
    dispatcher = numba.njit(**options)(function)
    template = dispatcher.get_call_template
    # A constant is passed on as any other number: for its value numba would compile the function called once more.
    dispatcher.get_call_template = lambda args, kws: template([types.unliteral(one) for one in args], kws)
    if cache_folder() is not None:
        dispatcher._cache = _KernelCache(function)
    return dispatcher


class _Locator(_CacheLocator):
    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file, self._line = py_file, py_func.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Locator":
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return _key()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012


class _KernelCache(FunctionCache):
    _impl_class = _KernelCacheImpl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        self._cache_file = _Files(Path(self.cache_path), self._impl.filename_base)  # type: ignore[assignment]

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            logger.warning("compiled kernels cannot be kept in %s: %s", self.cache_path, error)
            self.disable()


def be_quiet() -> None:
    """Announce nothing in this process: the caller says that kernels are being compiled."""
    _announcer.said = True


class _Files:
    """The files of one function, one for each of its types, in the place of numba's index and numbered files."""

    def __init__(self, folder: Path, base: str) -> None:
        self._folder, self._base = folder, base

    def path(self, key: object) -> Path:
        name = hashlib.sha256(f"{_key()} {key!r}".encode()).hexdigest()[:24]
        return self._folder / f"{self._base}.{name}.nbc"

    def load(self, key: object) -> Any:
        """What was saved; None where nothing was, or where it is damaged, and then it is removed."""
        path = self.path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        data = content[CHECKSUM:]
        if hashlib.sha256(data).digest() == content[:CHECKSUM]:
            return pickle.loads(data)  # nosec B301 # see the import
        logger.warning("the compiled kernel %s is damaged; it is removed and compiled again", path)
        with suppress(OSError):
            path.unlink()
        return None

    def save(self, key: object, data: object) -> None:
        """Write the file at once, so that another process sees all of it or nothing."""
        path, content = self.path(key), dumps(data)
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink()

    def flush(self) -> None:
        """Remove the function's files."""
        for path in self._folder.glob(f"{self._base}.*.nbc"):
            path.unlink(missing_ok=True)


class _Announcer(event.Listener):
    """Says once a process that kernels are being compiled, when the first one is about to be."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        if self.said or not event.data["dispatcher"].py_func.__module__.startswith(__package__):
            return
        self.said = True
        kept = "once for each process" if cache_folder() is None else f"once, and kept in {cache_folder()}"
        logger.warning(
            "sudoku_env: compiling kernels, which takes seconds to two minutes, by what is needed; %s. "
            "`sudoku-dllm compile` does it all in advance",
            kept,
        )

    def on_end(self, event: Any) -> None:
        pass


@cache
def _key() -> str:
    return sources_key()


_announcer = _Announcer()
event.register("numba:compile", _announcer)
