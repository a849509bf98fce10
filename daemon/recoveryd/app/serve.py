"""The life of the process: what starts in which order, what ends it, and with which exit code.

        work folder -> HTTP up -> own topics checked -> group joined -> (assigned) journal opened -> leads ...
      -> a signal, or a failure that only a restart mends

Exit codes: 0 asked to end; 75 one-shot mode ended with something left to do; 70 own invariant broken, fenced or stalled
commits (the supervisor restarts it); 78 the config or the own topics are wrong (a restart changes nothing). Ending
takes at most ten seconds; Spark applications run on under their lease.
"""

import asyncio
import contextlib
import errno
import math
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import structlog

from recoveryd.adapters.kafka.clusters import MAIN
from recoveryd.app.credentials import credentials_of, request_timeout_s, tuning_of
from recoveryd.app.feed import Feed
from recoveryd.app.once import OneShot
from recoveryd.app.worker import FeedConfig
from recoveryd.bootstrap.daemon import Daemon, build
from recoveryd.errors import ClusterProblem, ConfigProblem, OwnTopicProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.settings import Settings

log = structlog.stdlib.get_logger(__name__)

EXIT_CLEAN, EXIT_BROKEN, EXIT_LEFT, EXIT_CONFIG = 0, 70, 75, 78
# Whoever found it: files of a cluster are read by the client library.
_WRONG_CONFIG: Final = frozenset({
    Code.CONFIG_UNREADABLE,
    Code.CONFIG_UNKNOWN_KEY,
    Code.CONFIG_INVALID,
    Code.BOOTSTRAP_MISSING,
})  # fmt: skip
BROKER_PATIENCE_S: Final = 60.0
RETRY_S: Final = 2.0
BEAT_S: Final = 0.5
# Together less than the ten seconds that supervisors are told to wait.
ROUND_LIMIT_S, GROUP_LIMIT_S, CLOSE_LIMIT_S = 4.0, 3.0, 2.0


async def serve(
    settings: Settings,
    read_again: Callable[[], Settings],
    once_for_s: float | None = None,
    was_hung_up: Callable[[], bool] = lambda: False,
) -> int:
    """Run the daemon until a signal or a failure; returns the exit code and raises nothing. SIGHUP reads the units and
    the secrets again, also where it came before (`was_hung_up`), since the config was read meanwhile. With `once_for_s`
    it also ends when nothing is left to do, and begins to end when this time is over.
    """
    end_s = None if once_for_s is None else time.monotonic() + once_for_s
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    daemon: Daemon | None = None
    try:
        daemon = build(settings, read_again)
        loop.add_signal_handler(signal.SIGHUP, _reread, daemon)
        if was_hung_up():
            _reread(daemon)
        return await _run(settings, daemon, stopped, None if end_s is None else OneShot(daemon, end_s))
    except RecoverydError as problem:
        _tell(problem)
        return EXIT_CONFIG if _is_for_good(problem) else EXIT_BROKEN
    except Exception:
        log.exception("ends because of a bug", code=Code.INVARIANT_BROKEN.value)
        return EXIT_BROKEN
    finally:
        if daemon is not None:
            await _within("closing", CLOSE_LIMIT_S, _close(daemon))


def _is_for_good(problem: RecoverydError) -> bool:
    is_wrong_config = problem.code in _WRONG_CONFIG and not problem.retriable
    return is_wrong_config or isinstance(problem, OwnTopicProblem)


async def _run(settings: Settings, daemon: Daemon, stopped: asyncio.Event, once: OneShot | None) -> int:
    beating = asyncio.create_task(_beat(daemon))
    end_s = math.inf if once is None else once.end_s
    try:
        _make_work_dir(settings.work_dir)
        await _listen(settings, daemon)
        await _until_stopped(_check_own_topics(daemon, end_s), stopped)
        if stopped.is_set():
            return EXIT_CLEAN
        feed = Feed(_feed_config(settings, daemon), daemon.intake, daemon.runtime)
        daemon.secret_holders.main_renewed.append(feed.take_login)
        daemon.secret_holders.asked.append(feed.forget_token)
        tasks = [asyncio.create_task(work) for work in _work(daemon, feed)]
        try:
            if await _has_joined(feed, stopped, end_s):
                log.info("has joined the group", group=settings.group, topic=settings.topic_names.control)
                await _until_stopped(_first_failure(tasks), stopped, once)
        finally:
            await _wind_down(daemon, feed, tasks)
    finally:
        beating.cancel()
    if once is None:
        log.info("ends as asked")
        return EXIT_CLEAN
    log.info("ends", remaining=once.left, has_led=once.has_led)
    return EXIT_CLEAN if once.is_done else EXIT_LEFT


async def _has_joined(feed: Feed, stopped: asyncio.Event, end_s: float) -> bool:
    """Join the group, until the request to stop, or `end_s`. False = it was cut short."""
    joined = asyncio.Event()

    async def join() -> None:
        if await _in_time(feed.start(), end_s):
            joined.set()

    await _until_stopped(join(), stopped)
    return joined.is_set()


def _work(daemon: Daemon, feed: Feed) -> list[Coroutine[Any, Any, None]]:
    """The first is the writer, which may finish its round; the others are cancelled at the end."""
    return [
        daemon.runtime.run(),
        daemon.runtime.ticker.run(),
        daemon.intake.run(),
        daemon.collector.run(),
        *(collector.run() for collector in daemon.readings),
        feed.watch(),
    ]


async def _wind_down(daemon: Daemon, feed: Feed, tasks: list[asyncio.Task[None]]) -> None:
    """Finish the present round, then leave the group with every acknowledgement committed, so that the next leader
    starts right there; meanwhile webhooks hear of what happened.
    """
    writer, *others = tasks
    daemon.runtime.stop()
    await asyncio.wait({writer}, timeout=ROUND_LIMIT_S)
    await asyncio.sleep(0)  # lets the feed acknowledge the records of that round
    await asyncio.gather(feed.stop(GROUP_LIMIT_S), daemon.posts.close(GROUP_LIMIT_S))
    for task in (writer, *others):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _close(daemon: Daemon) -> None:
    closings = (
        daemon.collector.close(),
        *(collector.close() for collector in daemon.readings),
        daemon.interpreter.close(),
        daemon.progress.close(),
        daemon.jobs.close(),
        daemon.applications.close(),
        daemon.journal.close(),
        daemon.clusters.close(),
        daemon.server.close(),
    )
    for result in await asyncio.gather(*closings, return_exceptions=True):
        if isinstance(result, Exception):
            log.warning("something did not close well", error=repr(result))


def _make_work_dir(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        message = f"work_dir {folder} is not usable: {error.strerror}."
        hint = "Correct its owner, or set `work_dir` to a folder that the daemon may write to."
        raise ConfigProblem(message, hint, key="work_dir") from error


async def _listen(settings: Settings, daemon: Daemon) -> None:
    try:
        await daemon.server.start()
    except OSError as error:
        message = f"http.listen {settings.values.http.listen} is not usable: {error.strerror or error}."
        raise ConfigProblem(
            message, "Stop what listens there, or choose another address.", key="http.listen"
        ) from error
    log.info("listens", http=f"{settings.values.http.host}:{daemon.server.port}")


async def _check_own_topics(daemon: Daemon, end_s: float = math.inf) -> None:
    """A wrong topic ends the daemon at once; a broker that does not answer yet gets a minute, and never longer than
    until `end_s`.
    """
    give_up_s = min(time.monotonic() + BROKER_PATIENCE_S, end_s)
    while True:
        try:
            if not await _in_time(daemon.clusters.check_own_topics(), end_s):
                message = "No broker has told of recoveryd's own topics in all the time that this run had"
                raise ClusterProblem(message, retriable=False)
        except OwnTopicProblem:
            raise
        except RecoverydError as problem:
            if not problem.retriable or time.monotonic() > give_up_s:
                raise
            log.warning("no broker answers yet, will try again", code=problem.code.value, error=problem.message)
            await asyncio.sleep(max(0.0, min(RETRY_S, end_s - time.monotonic())))
        else:
            return


async def _in_time(work: Awaitable[None], end_s: float) -> bool:
    """Wait for `work`, at most until `end_s`; False = it was cut short."""
    try:
        async with asyncio.timeout(None if end_s == math.inf else max(0.0, end_s - time.monotonic())) as limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    return True


async def _first_failure(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until a task raises (then raise its exception) or the writer returns; other tasks may return."""
    waiting: set[asyncio.Task[None]] = set(tasks)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if tasks[0] in done:
            return


async def _until_stopped(work: Awaitable[None], stopped: asyncio.Event, once: OneShot | None = None) -> None:
    """Wait for `work` (and raise what it raises), for the request to stop, or for the end of one-shot mode."""
    working = asyncio.ensure_future(work)
    tasks = [working, asyncio.ensure_future(stopped.wait())]
    if once is not None:
        tasks.append(asyncio.ensure_future(once.run()))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _beat(daemon: Daemon) -> None:
    while True:
        daemon.pulse.beat()
        await asyncio.sleep(BEAT_S)


async def _within(what: str, limit_s: float, work: Awaitable[None]) -> None:
    try:
        await asyncio.wait_for(work, limit_s)
    except TimeoutError:
        log.warning("took too long and is left alone", what=what, limit_s=limit_s)


def _reread(daemon: Daemon) -> None:
    daemon.unit_files.ask()
    daemon.secret_files.ask()
    for tell in daemon.secret_holders.asked:
        tell()


def _tell(problem: RecoverydError) -> None:
    log.error(problem.message, code=problem.code.value, hint=problem.hint)


def _feed_config(settings: Settings, daemon: Daemon) -> FeedConfig:
    access, values = daemon.secret_holders.accesses[MAIN], settings.values.faust
    try:
        credentials = credentials_of(access)
    except OSError as error:  # includes ssl.SSLError
        raise ConfigProblem(
            f"clusters.main: a certificate or key is not usable: {error}", key="clusters.main"
        ) from error
    return FeedConfig(
        brokers=tuple(address.strip() for address in access.bootstrap.split(",")),
        topic=settings.topic_names.control,
        group=settings.group,
        work_dir=settings.work_dir,
        session_timeout_s=values.session_timeout / 1000,
        heartbeat_interval_s=values.heartbeat_interval / 1000,
        commit_interval_s=values.commit_interval / 1000,
        instance_id=values.instance_id,
        credentials=credentials,
        request_timeout_s=request_timeout_s(access),
        tuning=tuning_of(access),
    )
