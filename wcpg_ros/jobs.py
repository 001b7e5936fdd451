"""One function over many jobs: here, on this machine's cores, or by Ray on a cluster. The results are the same.

| backend       | where                                                                       |
|---------------|-----------------------------------------------------------------------------|
| `serial`      | in this process                                                             |
| `threads`     | in this process, a thread a core: for what leaves Python most of the time   |
| `processes`   | one process a core                                                          |
| `ray`         | Ray tasks on this machine; `ray:ADDRESS` on the cluster there (`ray:auto`)  |

A cluster's machines must have this package installed and see the same files under the same paths.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

from sim_node.settings import SettingsError

Job = TypeVar('Job')
Result = TypeVar('Result')

BACKENDS = 'serial, threads, processes, ray or ray:ADDRESS'


def check_backend(backend: str) -> None:
    """A SettingsError unless the backend exists and is installed."""
    kind, _, address = backend.partition(':')
    if kind not in ('serial', 'threads', 'processes', 'ray') or (address and kind != 'ray'):
        raise SettingsError(f'backend {backend!r} is unknown; choose {BACKENDS}')
    if kind == 'ray':
        try:
            import ray  # noqa: F401
        except ImportError:
            raise SettingsError("backend 'ray' needs Ray: pip install 'wcpg_ros[ray]'") from None


def run_jobs(fn: Callable[[Job], Result], jobs: Sequence[Job], backend: str = 'processes'
             ) -> Iterator[tuple[Job, Result]]:
    """Each job with fn(job), as they finish. A job that fails raises here; whoever stops listening cancels the rest.

    `fn` must be a function of a module, and jobs and results must survive pickling.
    """
    check_backend(backend)
    kind, _, address = backend.partition(':')
    if kind == 'serial':
        return ((job, fn(job)) for job in jobs)
    return _ray(fn, jobs, address) if kind == 'ray' else _pool(fn, jobs, processes=kind == 'processes')


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def end_with_parent() -> None:
    """For the start of a worker process: one whose parent was killed would wait for work for ever."""
    def watch() -> None:
        multiprocessing.parent_process().join()     # type: ignore[union-attr]
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


def _pool(fn: Callable[[Job], Result], jobs: Sequence[Job], processes: bool) -> Iterator[tuple[Job, Result]]:
    if not jobs:
        return
    workers = min(len(jobs), cores())
    pool: Executor = (ProcessPoolExecutor(workers, multiprocessing.get_context('spawn'), end_with_parent)
                      if processes else ThreadPoolExecutor(workers))
    ahead = iter(jobs)     # a pool begins what it was given even after a Ctrl-C: one job a worker, no more
    try:
        waiting = {pool.submit(fn, job): job for job in islice(ahead, workers)}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job, result = waiting.pop(future), future.result()
                waiting |= {pool.submit(fn, following): following for following in islice(ahead, 1)}
                yield job, result
    finally:
        pool.shutdown(cancel_futures=True)


def _ray(fn: Callable[[Job], Result], jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, Result]]:
    import ray
    started = not ray.is_initialized()
    if started:
        ray.init(address=address or 'local', include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        task = ray.remote(fn)
        waiting = {task.remote(job): job for job in jobs}
        while waiting:
            ready, _ = ray.wait(list(waiting))
            for reference in ready:
                yield waiting.pop(reference), ray.get(reference)
    finally:
        if started:
            ray.shutdown()
