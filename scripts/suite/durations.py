"""The duration of each job on 2 cores in seconds, and its processor time per second. The committed
table alone decides the order of jobs and how many run at a time: on a loaded machine, a job that
waits for a core would look like a job that needs none."""

from pathlib import Path

TABLE = Path(__file__).with_name("durations.txt")
LEAST = 1.0
"""Shorter jobs have no line."""


class Durations:
    def __init__(self, own):
        self.own, self.known, self.seen = own, read(TABLE), {}

    def apply(self, jobs):
        for job in jobs:
            if job.name in self.known:
                job.seconds, job.cores = self.known[job.name]
        return jobs

    def record(self, result):
        # A job that waits still takes a share: its threads wake up.
        cores = min(max(result.cpu / max(result.seconds, 0.01), 0.15), 2.0)
        self.seen[result.job.name] = (round(result.seconds, 1), round(cores, 2))

    def save(self):
        write(self.own, {**read(self.own), **self.seen})

    def commit(self):
        """Rewrites the table from the last run of each job here."""
        write(TABLE, {name: row for name, row in read(self.own).items() if row[0] >= LEAST})


def read(path):
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return {name: (float(seconds), float(cores)) for name, seconds, cores in rows}


def write(path, rows):
    path.write_text(
        "".join(f"{name} {seconds} {cores}\n" for name, (seconds, cores) in sorted(rows.items()))
    )
