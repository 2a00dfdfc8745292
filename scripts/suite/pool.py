"""Runs jobs in parallel within a budget of processor cores."""

import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Job:
    """A command that passes or fails."""

    name: str
    argv: list
    cwd: str = "."
    env: dict = field(default_factory=dict)
    needs: tuple = ()
    """Names of jobs that have to pass first."""
    turn: str = ""
    """Jobs of one turn never run at the same time."""
    seconds: float = 1.0
    """Expected duration; the longest job starts first."""
    cores: float = 1.0
    """Expected processor time per second."""
    limit: int = 900
    """Seconds after which the job counts as hanging."""
    first: bool = False
    """Starts before other jobs, whatever its duration: other jobs need it."""
    discover: object = None
    """Called with the job after it passed; returns the jobs that it makes known."""


@dataclass
class Result:
    job: Job
    status: int
    seconds: float
    cpu: float
    log: Path
    hung: bool = False

    @property
    def passed(self):
        return self.status == 0


def session_members(leader):
    """Yields the live processes of the session of `leader`. A job's children may have other process
    groups, for example under `timeout`."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                # The command's name may contain spaces and parentheses; state, parent, group and
                # session follow.
                state, _, _, session = file.read().rpartition(")")[2].split()[:4]
                if int(session) == leader and state != "Z":
                    yield int(entry)
        except OSError:
            pass


def end_session(leader):
    # Again until none is left: a process may have started another one during the scan.
    while members := list(session_members(leader)):
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Running:
    """A job's process. Its output goes to a file: no child that outlives it holds a pipe open."""

    def __init__(self, job, log):
        self.job, self.log, self.started, self.hung = job, log, time.monotonic(), False
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                job.argv,
                cwd=job.cwd,
                env={**os.environ, **job.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.ended = os.pidfd_open(self.process.pid)

    def result(self):
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self.ended)
        end_session(self.process.pid)
        seconds = time.monotonic() - self.started
        return Result(
            self.job,
            self.process.returncode,
            seconds,
            usage.ru_utime + usage.ru_stime,
            self.log,
            self.hung,
        )

    def check_limit(self):
        if time.monotonic() - self.started > self.job.limit and not self.hung:
            self.hung = True
            end_session(self.process.pid)


class Pool:
    """Starts each job when its needs have passed, its turn is free and its load fits the cores."""

    def __init__(self, cores, logs):
        # More than the cores: expected loads are estimates, and idle time of a core is lost.
        self.budget, self.logs = cores + 0.35, logs
        self.most = cores * 6
        self.waiting, self.running, self.passed = [], {}, set()
        self.events = selectors.DefaultSelector()

    def add(self, jobs):
        self.waiting.extend(jobs)
        self.waiting.sort(key=lambda job: (not job.first, -job.seconds))

    def is_ready(self, job):
        turns = {running.job.turn for running in self.running.values()} - {""}
        return job.turn not in turns and all(need in self.passed for need in job.needs)

    def start_what_fits(self):
        load = sum(running.job.cores for running in self.running.values())
        for job in list(self.waiting):
            if len(self.running) >= self.most:
                return
            fits = not self.running or load + job.cores <= self.budget
            if fits and self.is_ready(job):
                self.waiting.remove(job)
                running = Running(job, self.logs / (job.name.replace("/", "_") + ".log"))
                self.running[running.ended] = running
                self.events.register(running.ended, selectors.EVENT_READ)
                load += job.cores

    def skipped(self):
        """Removes and returns the jobs that cannot start, since a job that they need failed."""
        possible = (
            self.passed
            | {job.name for job in self.waiting}
            | {running.job.name for running in self.running.values()}
        )
        lost = [job for job in self.waiting if any(need not in possible for need in job.needs)]
        self.waiting = [job for job in self.waiting if job not in lost]
        return lost

    def run(self):
        """Yields a Result for each job that ended, and a Job for each that cannot start."""
        try:
            while self.waiting or self.running:
                self.start_what_fits()
                yield from self.skipped()
                for key, _ in self.events.select(timeout=1):
                    self.events.unregister(key.fd)
                    result = self.running.pop(key.fd).result()
                    if result.passed:
                        self.passed.add(result.job.name)
                        if result.job.discover:
                            self.add(result.job.discover(result))
                    yield result
                for running in self.running.values():
                    running.check_limit()
        finally:
            for running in self.running.values():
                end_session(running.process.pid)
