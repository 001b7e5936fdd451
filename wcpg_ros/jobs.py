"""One function over many jobs: here, on this machine's cores, or by Ray on a cluster. The results are the same.

| backend       | where                                                                       |
|---------------|-----------------------------------------------------------------------------|
| `serial`      | in this process                                                             |
| `processes`   | one process a core                                                          |
| `ray`         | Ray tasks on this machine; `ray:ADDRESS` on the cluster there (`ray:auto`)  |

A cluster's machines must have this package installed and see the same files under the same paths.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice
from typing import TypeVar

from sim_node.settings import SettingsError

Job = TypeVar('Job')
Result = TypeVar('Result')

BACKENDS = 'serial, processes, ray or ray:ADDRESS'


def check_backend(backend: str) -> None:
    """A SettingsError unless the backend exists and is installed."""
    kind, _, address = backend.partition(':')
    if kind not in ('serial', 'processes', 'ray') or (address and kind != 'ray'):
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
    return _processes(fn, jobs) if kind == 'processes' else _ray(fn, jobs, address)


def _processes(fn: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
    if not jobs:
        return
    workers = min(len(jobs), len(os.sched_getaffinity(0)))
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context('spawn'))
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
