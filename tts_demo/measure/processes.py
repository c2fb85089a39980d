"""An evaluation in several processes. Each takes the next text that no other has, so that every core has work to the
end."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tqdm import tqdm

from .cases import Row
from .quality import Evaluation, Job

SAVE_SECONDS = 5.0


def run(
    evaluation: Evaluation,
    rows: list[Row],
    processes: int,
    build: Callable[[], Evaluation],
    takes: int = 1,
    show: bool = True,
) -> None:
    """Like ``evaluation.run(rows, takes)``. ``build`` makes the same evaluation, without its store, in another
    process."""
    context = multiprocessing.get_context("spawn")
    texts, found, stop = context.Queue(), context.Queue(), context.Event()
    threads = max(1, (os.cpu_count() or 1) // processes)
    evaluation.conditions |= {"processes": processes, "threads": threads}
    jobs: dict[str, list[Job]] = {}
    for job in evaluation.missing(rows, takes):
        jobs.setdefault(evaluation.key("", job.case), []).append(job)
    for work in [*jobs.values(), *[None] * processes]:
        texts.put(work)
    workers = [
        context.Process(target=_work, args=(build, threads, texts, found, stop), daemon=True) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    try:
        with tqdm(
            total=sum(map(len, jobs.values())), desc="evaluate", unit="run", disable=not show, mininterval=2.0
        ) as bar:
            saved = time.monotonic()
            for key, record in _records(found, workers, lambda: stop.set() if evaluation.expired else None):
                evaluation.records[key] = record
                bar.update()
                if time.monotonic() - saved > SAVE_SECONDS:
                    evaluation.save()
                    saved = time.monotonic()
    finally:
        evaluation.save()
        stop.set()
        for worker in workers:
            worker.terminate()
            worker.join()


def _records(found: Any, workers: list[Any], watch: Callable[[], None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Keys and records as they come, until every worker has said that it is through."""
    working = len(workers)
    while working:
        watch()
        try:
            got = found.get(timeout=1)
        except queue.Empty:
            if any(worker.exitcode not in (None, 0) for worker in workers):
                raise RuntimeError("A process of the evaluation has died; what it said is above.") from None
            continue
        if got is None:
            working -= 1
        else:
            yield got


def end_with_parent() -> None:
    """Make this process end when the one that began it does, killed or not: a daemon outlives a parent that was
    killed."""
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _work(build: Callable[[], Evaluation], threads: int, texts: Any, found: Any, stop: Any) -> None:
    end_with_parent()
    torch.set_num_threads(threads)
    evaluation = build()
    for jobs in iter(texts.get, None):
        for job in jobs:
            if stop.is_set():
                break
            found.put((evaluation.key(job.label, job.case, job.take), evaluation.measure(job)))
    found.put(None)
