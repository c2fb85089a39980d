"""What visitors bring: where it is kept, how much of it, and how long. Gradio's own endpoint takes any number of files
in one request, and its cleaning knows the files of its own process alone."""

import contextlib
import errno
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import anyio
from gradio_client.utils import strip_invalid_filename_characters
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..config import UserError
from .limits import Limits, Unavailable
from .presence import address

LEAST_FREE_MB = 100  # on the disk of the uploads: what a few visitors fill within the hour that files are kept
LOOK_SECONDS = 5.0  # how long an answer about the folder stands
KEPT_SECONDS, SWEEP_SECONDS = 3600.0, 600.0


class Uploads:
    """The folder in which Gradio keeps what visitors bring and hear."""

    def __init__(self, folder: str | Path, limits: Limits = Limits()) -> None:
        self.folder, self.limits = Path(folder), limits
        self._looked, self._found = float("-inf"), ()
        self._sizes: dict[str, list[tuple[float, int]]] = {}  # address -> time and bytes of what it brought
        self._guard = threading.Lock()

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
            return (f"The disk of the uploads ({self.folder}) is nearly full, {free:.0f} MB are left: make room.",)
        return ()

    def keep(self, file: BinaryIO, name: str, size: int, who: str) -> Path:
        """A copy of the file where nobody can guess it; UserError where there is no room for it."""
        with self._guard:
            self._make_room(size, who)
            target = self.folder / secrets.token_hex(16) / name
            target.parent.mkdir(parents=True)
            try:
                with open(target, "wb") as out:
                    shutil.copyfileobj(file, out)
            except OSError:
                shutil.rmtree(target.parent, ignore_errors=True)
                raise
            self._sizes.setdefault(who, []).append((time.monotonic(), size))
            return target

    def _make_room(self, size: int, who: str) -> None:
        since = time.monotonic() - KEPT_SECONDS
        mine = [(at, n) for at, n in self._sizes.get(who, []) if at > since]
        self._sizes[who] = mine
        if sum(n for _, n in mine) + size > self.limits.visitor_uploads_mb * 1e6:
            most = self.limits.visitor_uploads_mb
            raise Unavailable(f"You have uploaded {most} MB within the hour, the most there is room for.", 600)
        free = shutil.disk_usage(self.folder).free / 1e6
        if self.size() + size > self.limits.uploads_mb * 1e6 or free - size / 1e6 < LEAST_FREE_MB:
            raise Unavailable("The server has no room for recordings now; try again in ten minutes.", 600)

    def size(self) -> int:
        """Bytes in the folder."""
        return sum(stat.st_size for _, stat in self._files())

    def sweep(self, age: float = KEPT_SECONDS) -> int:
        """Delete what is older than ``age`` seconds, whoever wrote it; how many files."""
        before, count = time.time() - age, 0
        for path, stat in list(self._files()):
            if stat.st_mtime < before and stat.st_ctime < before:
                with contextlib.suppress(OSError):
                    path.unlink()
                    count += 1
                    if path.parent != self.folder:
                        path.parent.rmdir()
        for folder, folders, files in os.walk(self.folder, topdown=False):
            with contextlib.suppress(OSError):
                if not files and folder != str(self.folder) and os.stat(folder).st_mtime < before:
                    os.rmdir(folder)
        since = time.monotonic() - KEPT_SECONDS
        with self._guard:
            self._sizes = {who: kept for who, kept in self._sizes.items() if kept and kept[-1][0] > since}
        return count

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for folder, _, files in os.walk(self.folder):
            for name in files:
                path = Path(folder) / name
                with contextlib.suppress(OSError):
                    yield path, path.lstat()

    @contextlib.asynccontextmanager
    async def swept(self, _app: Any) -> Any:
        """Lifespan of the server: the folder is swept at its start and every ten minutes."""

        async def again() -> None:
            while True:
                await anyio.to_thread.run_sync(self.sweep)
                await anyio.sleep(SWEEP_SECONDS)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(again)
            yield
            tasks.cancel_scope.cancel()


def routes(uploads: Uploads) -> list[Route]:
    """Stands before Gradio's own endpoint: one file a request, of which nothing stays when it is cut off."""

    async def upload(http: Request) -> Response:
        if not http.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            return JSONResponse({"detail": "A recording must be sent as multipart/form-data."}, 400)
        async with http.form(max_files=1, max_fields=4, max_part_size=1000) as form:
            file = form.get("files")
            if not isinstance(file, UploadFile) or not file.size:
                return JSONResponse({"detail": "There is no file in the field 'files', or it is empty."}, 400)
            name = strip_invalid_filename_characters(Path(file.filename or "").name)[-100:].lstrip(".")
            who = address(http.client.host if http.client else None)
            try:
                path = await anyio.to_thread.run_sync(uploads.keep, file.file, name or "recording", file.size, who)
            except Unavailable as error:
                return JSONResponse({"detail": str(error)}, 507, headers={"Retry-After": str(error.seconds)})
        return JSONResponse([str(path)])

    return [Route(path, upload, methods=["POST"]) for path in ("/gradio_api/upload", "/gradio_api/upload/")]
