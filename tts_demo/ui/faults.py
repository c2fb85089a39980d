"""What can be wrong with the machine under the page (ports, folders, disks), each as one sentence that says what to
do."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

from ..config import UserError

LEAST_FREE_MB = 100  # on the disk of the uploads: what a few visitors fill within the hour that files are kept
LOOK_SECONDS = 5.0  # how long an answer about the folder stands


def check_address(host: str | None, port: int | None) -> None:
    """UserError where the page could not be served at this address."""
    host, port = host or "127.0.0.1", port or 0
    if not 0 <= port < 2**16:
        raise UserError(f"There is no port {port}: choose one from 1 to 65535 with --port.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        raise UserError(f"{host} is no address of this machine: choose 127.0.0.1 or 0.0.0.0 with --host.") from None
    except OSError as error:
        raise UserError(
            {
                errno.EADDRINUSE: f"Port {port} is in use: choose another one with --port, or end what uses it.",
                errno.EACCES: f"Port {port} needs rights that this user has not: choose one above 1023 with --port.",
                errno.EADDRNOTAVAIL: f"{host} is no address of this machine: choose 127.0.0.1 or 0.0.0.0 with --host.",
            }.get(error.errno, f"The page cannot be served at {host}, port {port} ({error.strerror}).")
        ) from None


class Uploads:
    """The folder in which Gradio keeps what visitors bring and hear."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._looked, self._found = float("-inf"), ()

    def check(self) -> None:
        """UserError where the page had better not be started."""
        for problem in self.problems():
            if "nearly" not in problem:
                raise UserError(problem)

    def problems(self) -> tuple[str, ...]:
        """Sentences about what is wrong with it, empty where all is well; looked at anew every few seconds."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._found, self._looked = self._look(), time.monotonic()
        return self._found

    def _look(self) -> tuple[str, ...]:
        advice = "set GRADIO_TEMP_DIR to a folder of your own"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder) as probe:
                probe.write(os.urandom(65_536))
                probe.flush()
            free = shutil.disk_usage(self.folder).free / 1e6
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return (f"The disk of the uploads ({self.folder}) is full: make room on it.",)
            return (f"Uploads cannot be written to {self.folder} ({error.strerror}): {advice}.",)
        if free < LEAST_FREE_MB:
            return (
                f"The disk of the uploads ({self.folder}) is nearly full, {free:.0f} MB are left: make room on it.",
            )
        return ()


def sentence(error: OSError) -> str:
    """For a visitor: what the machine's refusal means to them."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The server's disk is full: tell who runs it, and try again later."
    return f"The server cannot keep the file ({error.strerror or 'unknown reason'}): tell who runs it."
