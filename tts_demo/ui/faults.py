"""What can be wrong with the machine under the page (ports, folders, disks), each as one sentence that says what to
do."""

import errno
import socket

from ..config import UserError


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


def sentence(error: OSError) -> str:
    """For a visitor: what the machine's refusal means to them."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The server's disk is full: tell who runs it, and try again later."
    return f"The server cannot keep the file ({error.strerror or 'unknown reason'}): tell who runs it."
