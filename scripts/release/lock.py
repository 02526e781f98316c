"""Write the lock: what `make setup` installs, in the versions of constraints.txt, with the hashes of all their files.

    python -m scripts.release.lock

requirements.lock holds for every platform and Python of pyproject.toml. What torch's Linux files on the package index
bring for NVIDIA accelerators, and its files for processors alone do not, is in requirements-cuda.lock.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS, LOCK, CUDA_LOCK = (
    ROOT / name for name in ("constraints.txt", "requirements.lock", "requirements-cuda.lock")
)
OF_CUDA = re.compile(r"(cuda|nvidia|triton)\b")
PLATFORMS = ("linux", "darwin")
COMPILE = [
    sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--extra", "dev", "--extra", "agents",
    "--constraint", CONSTRAINTS.name, "--universal", "--python-version", "3.11", "--generate-hashes",
    "--no-header", "--no-annotate", "--quiet",
]  # fmt: skip
HEADER = "# Written by `make lock` from pyproject.toml and constraints.txt; CONTRIBUTING.md says how it is installed.\n"


def pins(text: str) -> Iterator[tuple[Requirement, str]]:
    """Each pinned requirement of a constraints or lock file, and its whole entry with its hashes."""
    for entry in re.findall(r"^\w.*(?:\n +.*)*\n", text, re.MULTILINE):
        yield Requirement(entry.split("\\\n")[0].split(" #")[0].strip()), entry


def versions(text: str) -> dict[str, str]:
    """Name → version of a constraints or lock file."""
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin, _ in pins(text)}


def needed(marker: Marker | None) -> bool:
    """Whether a requirement is for one of our platforms."""
    return marker is None or any(
        marker.evaluate({"sys_platform": name, "os_name": "posix", "platform_python_implementation": "CPython"})
        for name in PLATFORMS
    )


def main() -> None:
    """Resolve, and deal the entries to the two files.

    What is in the files already stays in its version where constraints.txt does not say.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "all.txt"
        output.write_text("".join(path.read_text(encoding="utf-8") for path in (LOCK, CUDA_LOCK) if path.is_file()))
        subprocess.run([*COMPILE, "--output-file", str(output)], cwd=ROOT, check=True)
        entries = list(pins(output.read_text(encoding="utf-8")))
    kept, ours, cuda = versions(CONSTRAINTS.read_text(encoding="utf-8")), [HEADER], [HEADER]
    for pin, entry in entries:
        name = canonicalize_name(pin.name)
        if OF_CUDA.match(name):
            cuda.append(entry)
        elif name in kept:
            ours.append(entry)
        elif needed(pin.marker):
            raise SystemExit(
                f"constraints.txt does not say which version of {name} is installed; add {name}{pin.specifier}"
            )
    LOCK.write_text("".join(ours), encoding="utf-8")
    CUDA_LOCK.write_text("".join(cuda), encoding="utf-8")


if __name__ == "__main__":
    main()
