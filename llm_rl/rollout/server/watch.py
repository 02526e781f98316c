"""Runs a command and ends it, with all that it started, when standard input ends: when who asked for it is gone.

python watch.py COMMAND …
"""

import os
import signal
import subprocess
import sys
import threading


def end_group(number: int) -> None:
    """Kill what is left of a process group."""
    try:
        os.killpg(number, signal.SIGKILL)
    except ProcessLookupError:
        return


def end_with_input(number: int) -> None:
    """Wait for the end of standard input, then kill a process group."""
    while os.read(0, 1):
        continue
    end_group(number)


def main() -> int:
    """Run the command line; the exit code is that of the command."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=end_with_input, args=(process.pid,), daemon=True).start()
    code = process.wait()
    end_group(process.pid)  # what it started and left behind
    return code


if __name__ == "__main__":
    sys.exit(main())
