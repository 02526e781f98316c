"""Serve the demo page on the loopback interface, and open it in the browser.

python -m sudoku_dllm.demo.serve
python -m sudoku_dllm.demo.serve --port 8080 --no-open_browser
"""

import webbrowser
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from llm_rl.core._options import option
from llm_rl.training.command_line import USER_ERRORS, parse, user_errors


@dataclass
class Arguments:
    """Which folder is served, and where."""

    folder: str = option("build/demo", "Folder that sudoku_dllm.demo.export wrote.")
    port: int = option(8000, "Port; 0 is any that is free.")
    open_browser: bool = option(True, "Whether to open the page in the browser.")


class PageHandler(SimpleHTTPRequestHandler):
    """Files of the page, asked for anew each time, so that a new build is seen; without a line a request."""

    def end_headers(self) -> None:
        """Say that nothing is to be kept."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def page_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of a folder on the loopback interface; `serve_forever` runs it.

    Raises:
        ValueError: The folder holds no page, or there is no such port.
        OSError: The port is taken, or not for this user.
    """
    if not (folder / "index.html").is_file():
        raise ValueError(f"{folder} holds no index.html; write the page there by `python -m sudoku_dllm.demo.export`")
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(PageHandler, directory=str(folder)))
    except OverflowError:
        raise ValueError(f"--port {port}: ports are numbers from 0 to 65535") from None
    except OSError as error:
        raise OSError(f"--port {port}: {error.strerror}; choose another one, or 0 for any that is free") from error


def serve(folder: Path, port: int, open_browser: bool) -> None:
    """Serve a folder until Ctrl-C; errors as in `page_server`."""
    with page_server(folder, port) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        print(f"{address}: the page, until Ctrl-C", flush=True)
        if open_browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    (args,) = parse(Arguments)
    with user_errors(*USER_ERRORS, ValueError):
        serve(Path(args.folder), args.port, args.open_browser)
