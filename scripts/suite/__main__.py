"""The test suite. It builds what the tests need, then runs every test in a process of its own, as
many at a time as the cores carry.

    suite test       the jobs that a change has to pass (make test)
    suite all        also the jobs that take hours (make test-all)
    suite changed    the jobs that the files changed since BASE touch (make test-changed)
    suite flaky      each test N times, next to busy processes (make flaky)
    suite list       the names of all jobs of `test`
    suite durations  writes durations.txt from the last run; only after a run without other load

Variables:
    ONLY="words"     runs the jobs with one of these words in their names, and the jobs they need
    TRIES=2          runs a failed job a second time, and reports the first failure at the end
    N                repetitions of `flaky` (20)
    BASE             the commit that `changed` compares with (default: the newest of origin/main)

The output of each job is kept in build/test/logs."""

import collections
import dataclasses
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import changed
import steps
from durations import Durations
from pool import Job, Pool, Result

HOME = steps.ROOT / "build/test"
LOGS = HOME / "logs"


class Report:
    """Counts, and prints a line when all jobs of a group have ended."""

    def __init__(self):
        self.started = time.monotonic()
        self.results, self.failed, self.retried, self.skipped = [], [], [], []
        self.open, self.groups = {}, {}

    def expect(self, jobs):
        for job in jobs:
            self.groups.setdefault(group_of(job.name), [])
            self.open[group_of(job.name)] = self.open.get(group_of(job.name), 0) + 1

    def end(self, job, result=None):
        name = group_of(job.name)
        if result:
            self.results.append(result)
            self.groups[name].append(result)
        self.open[name] -= 1
        if self.open[name] == 0 and self.groups[name]:
            of_group = self.groups[name]
            cpu = sum(r.cpu for r in of_group)
            bad = sum(not r.passed for r in of_group)
            seconds = sum(r.seconds for r in of_group)
            verdict = f"{bad} FAILED" if bad else "ok"
            self.say(f"{name}: {len(of_group)} {verdict}, {seconds:.0f} s, {cpu:.0f} s of a core")

    def say(self, text):
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        print(f"[{minutes:3}:{seconds:02}] {text}", flush=True)

    def failure(self, result, again):
        how = "hangs" if result.hung else f"status {result.status}"
        note = ", tried again" if again else ""
        self.say(f"FAILED {result.job.name} after {result.seconds:.0f} s ({how}){note}")
        print_end(result.log)

    def finish(self):
        print("\nslowest:")
        for result in sorted(self.results, key=lambda r: -r.seconds)[:5]:
            print(f"  {result.seconds:6.1f} s  {result.job.name}")
        for result in self.retried:
            print(f"\nFLAKY: {result.job.name} failed at its first try")
            print_end(result.log)
        for result in self.failed:
            print(f"FAILED: {result.job.name}")
            print(f"    again: make test ONLY='{result.job.name}'")
        for job in self.skipped:
            print(f"NOT RUN: {job.name}: it needs {', '.join(job.needs)}")
        seconds = time.monotonic() - self.started
        cpu = sum(r.cpu for r in self.results)
        print(f"first failures: {len(self.retried) + len(self.failed)}")
        cores = f"{os.cpu_count()} cores, {cpu / 60:.1f} min of processor time"
        print(f"duration: {seconds / 60:.1f} min on {cores}")
        passed = sum(r.passed for r in self.results)
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        print(f"{passed} passed, {len(self.failed)} failed{skipped}")


def print_end(log):
    """Prints the end of a log, and before it the first panic, which a backtrace may follow."""
    lines = log.read_text(errors="replace").splitlines()
    panics = [at for at, line in enumerate(lines) if " panicked at " in line]
    first = lines[panics[0] : panics[0] + 8] if panics else []
    print(f"    from {log.relative_to(steps.ROOT)}:")
    for line in first + lines[-20:]:
        print(f"    | {line[:400]}")


def group_of(name):
    """The test binary of `ginrs::gin::a_test`; of a unit test, the first module of its crate."""
    return "::".join(name.split("::")[:2])


def chosen(jobs, words):
    return [job for job in jobs if not words or any(word in job.name for word in words)]


class Suite:
    def __init__(self, jobs, words, tries=1, repeat=1):
        self.words, self.tries, self.repeat = words, tries, repeat
        self.report, self.durations = Report(), Durations(HOME / "durations")
        shutil.rmtree(LOGS, ignore_errors=True)
        self.pool = Pool(os.cpu_count() or 1, LOGS)
        self.attempts = {}
        builds = steps.builds()
        for job in builds:
            if job.discover:
                job.discover = self.discovering(job.discover)
        self.add(self.with_needs(builds, jobs))

    def with_needs(self, builds, jobs):
        """The chosen jobs and the jobs that these need. Tests are known once their binaries are
        built: a word that is in no other job's name may need both builds."""
        if not self.words:
            return builds + jobs
        all_jobs = {job.name: job for job in builds + jobs}
        wanted = {job.name for job in chosen(all_jobs.values(), self.words)}
        tests = [word for word in self.words if not any(word in name for name in all_jobs)]
        if any(not word.startswith("abi-tests") for word in tests):
            wanted.add("build-unit")
        if any(not word.startswith(tuple(steps.PACKAGES)) for word in tests):
            wanted |= {"build-abi", "stage"}
        while more := {need for name in wanted for need in all_jobs[name].needs} - wanted:
            wanted |= more
        return [job for job in all_jobs.values() if job.name in wanted]

    def discovering(self, discover):
        def jobs(result):
            found = self.durations.apply(chosen(discover(result), self.words))
            if self.repeat > 1:
                found = [
                    dataclasses.replace(job, name=f"{job.name}#{i + 1}")
                    for job in found
                    for i in range(self.repeat)
                ]
            self.report.expect(found)
            return found

        return jobs

    def add(self, jobs):
        self.durations.apply(jobs)
        self.report.expect(jobs)
        self.pool.add(jobs)

    def run(self):
        for ended in self.pool.run():
            if isinstance(ended, Job):
                self.report.skipped.append(ended)
                self.report.end(ended)
                continue
            if ended.passed:
                self.durations.record(ended)
                self.report.end(ended.job, ended)
                continue
            self.fail(ended)
        if self.repeat == 1:
            self.durations.save()
        self.report.finish()
        if self.repeat > 1:
            failures = collections.Counter(
                result.job.name.rpartition("#")[0] for result in self.report.failed
            )
            for name, count in failures.most_common():
                print(f"FLAKY: {name} failed {count} of {self.repeat} times")
        named = chosen([result.job for result in self.report.results], self.words)
        if not named:
            fix = "choose words from the names that `make test-list` prints"
            print(f"no job was run | make test | ONLY={' '.join(self.words)} | fix: {fix}")
        return 1 if self.report.failed or self.report.skipped or not named else 0

    def fail(self, result):
        job = result.job
        self.attempts[job.name] = self.attempts.get(job.name, 0) + 1
        again = self.attempts[job.name] < self.tries
        self.report.failure(result, again)
        if again:
            first = result.log.with_suffix(".first.log")
            result.log.rename(first)
            result.log = first
            self.report.retried.append(result)
            self.pool.add([job])
        else:
            self.report.retried = [r for r in self.report.retried if r.job is not job]
            self.report.failed.append(result)
            self.report.end(job, result)


def busy_processes(count):
    return [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]


def all_names():
    """The names of all jobs, for which the test binaries are built."""
    yield from (job.name for job in steps.builds() + steps.checks())
    for build in steps.builds():
        if build.discover:
            log = HOME / f"list-{build.name}.log"
            with open(log, "wb") as out:
                subprocess.run(build.argv, check=True, stdout=out)
            yield from (job.name for job in build.discover(Result(build, 0, 0, 0, log)))


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "test"
    os.chdir(steps.ROOT)
    words = os.environ.get("ONLY", "").split()
    tries = int(os.environ.get("TRIES", "1"))
    if command == "test":
        return Suite(steps.checks(), words, tries).run()
    if command == "all":
        return Suite(steps.checks() + steps.long(), words, tries).run()
    if command == "changed":
        base, files = changed.files(os.environ.get("BASE"))
        words = changed.words(files)
        print(f"{len(files)} files differ from {base}; jobs: {' '.join(words) or 'none'}")
        return Suite(steps.checks(), words, tries).run() if words else 0
    if command == "flaky":
        load = busy_processes(2 * (os.cpu_count() or 1))
        try:
            return Suite([], words, repeat=int(os.environ.get("N", "20"))).run()
        finally:
            for process in load:
                process.kill()
    if command == "list":
        for name in all_names():
            print(name)
        return 0
    if command == "durations":
        Durations(HOME / "durations").commit()
        return 0
    print(__doc__, file=sys.stderr)
    return 2


sys.exit(main())
