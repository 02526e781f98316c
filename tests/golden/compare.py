"""`python -m tests.golden.compare [--write FILE | --against FILE]`: whether a tree trains bit for bit as another did.

The committed values hold on any processor, within rounding. To see on one machine that a change left every bit, write
a file at the commit before it and compare at the commit after it.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import torch

from tests.golden.runs import RUNS, golden

VALUES = Path(__file__).with_name("values.json")
BITS = Path("runs/golden_bits.json")


def main() -> int:
    """Run all and write the digests, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write what comes out, the committed values too")
    parser.add_argument("--against", type=Path, default=BITS, metavar="FILE", help=f"compare with it; {BITS}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: golden(run(Path(folder, name)))._asdict() for name, run in RUNS.items()}
    digests = {name: of.pop("digest") for name, of in found.items()}
    if args.write:
        args.write.parent.mkdir(parents=True, exist_ok=True)
        args.write.write_text(json.dumps(digests, indent=1) + "\n")
        VALUES.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    before = json.loads(args.against.read_text())
    changed = [name for name, digest in digests.items() if digest != before.get(name)]
    same = len(digests) - len(changed)
    print(f"{same} of {len(digests)} runs are bit for bit the same; changed: {changed or 'none'}")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
