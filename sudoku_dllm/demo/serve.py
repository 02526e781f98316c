"""Serve the demo page on the loopback interface, and open it in the browser."""

import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


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
        OSError: The port is taken, or not for this user.
    """
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(PageHandler, directory=str(folder)))
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
