"""Who asks, and whether they still wait for the answer: known from the connections, which Gradio's handlers do not see.

Gradio's queue runs an event apart from the request that began it; the client listens on a stream of its own, named by
its session or by the event. A stream that breaks off means that the client has left, until it comes again.
"""

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from gradio.context import LocalContext

MOST = 10_000  # absent clients that are remembered


@dataclass(frozen=True)
class Client:
    """``address``: whom limits count together; ``wanted``: False once nobody waits for the answer."""

    address: str
    wanted: Callable[[], bool]


class Presence:
    """Sessions and events whose client has left."""

    def __init__(self) -> None:
        self._absent: OrderedDict[str, None] = OrderedDict()
        self._guard = threading.Lock()

    def leave(self, *keys: str) -> None:
        with self._guard:
            self._absent.update(dict.fromkeys(keys))
            while len(self._absent) > MOST:
                self._absent.popitem(last=False)

    def come(self, *keys: str) -> None:
        with self._guard:
            for key in keys:
                self._absent.pop(key, None)

    def absent(self, *keys: str) -> bool:
        with self._guard:
            return any(key in self._absent for key in keys)


asking: ContextVar[Client] = ContextVar("asking")  # of a request that is answered directly


def client(presence: Presence) -> Client:
    """Of the Gradio event or request that this is called in; of a call without either, somebody who stays."""
    event_id, request = LocalContext.event_id.get(None), LocalContext.request.get(None)
    if event_id is None:
        return asking.get(Client("", lambda: True))
    keys = [event_id, *filter(None, [getattr(request, "session_hash", None)])]
    host = getattr(getattr(request, "client", None), "host", None)
    return Client(address(host), lambda: not presence.absent(*keys))


def address(host: str | None) -> str:
    """One for each visitor as far as addresses tell: of IPv6 the network, which is one household's."""
    try:
        ip = ipaddress.ip_address(host or "")
    except ValueError:
        return host or ""
    if ip.version == 4:
        return str(ip)
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False).network_address)
