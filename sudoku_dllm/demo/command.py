"""The command `demo`: the page where models solve Sudoku, built and served."""

import argparse
import tempfile
from pathlib import Path

from sudoku_dllm.demo.serve import serve
from sudoku_dllm.models import shipped_sizes
from sudoku_dllm.options import not_empty, whole


def add_demo(parser: argparse.ArgumentParser) -> None:
    """Options of `demo`."""
    parser.add_argument(
        "--models",
        type=not_empty,
        nargs="+",
        metavar="MODEL",
        help=f"shipped models or folders, each as FOLDER or NAME=FOLDER ({', '.join(shipped_sizes())})",
    )
    parser.add_argument(
        "--port", type=whole(0, 65535), default=8000, help="port on this machine; 0 is any that is free (%(default)s)"
    )
    parser.add_argument("--no_browser", action="store_true", help="do not open the page in the browser")
    parser.add_argument(
        "--output_dir", type=not_empty, help="write the page to this folder, to be put on a server, and serve nothing"
    )


def demo(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it."""
    # What follows needs torch, which takes seconds to import.
    from llm_rl.training.quiet import quiet_libraries
    from sudoku_dllm.demo.export import export

    quiet_libraries()
    if args.output_dir is not None:
        print(f"{export(Path(args.output_dir), args.models)}: the page, for any server of files")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        serve(export(Path(folder), args.models), args.port, open_browser=not args.no_browser)
    return 0
