"""Tests of the suite itself: `python3 -m unittest discover -s scripts/suite`."""

import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import changed
import steps
from pool import Job, Pool, Running, session_members


def shell(name, script, **options):
    return Job(name, ["sh", "-c", script], **options)


class PoolTests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.logs = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def ends(self, jobs, cores=2):
        """Returns the status of each job by name, or None for a job that cannot start."""
        pool = Pool(cores, self.logs)
        pool.add(jobs)
        return {
            ended.name if isinstance(ended, Job) else ended.job.name: (
                None if isinstance(ended, Job) else ended.status
            )
            for ended in pool.run()
        }

    def test_status_and_output_are_kept(self):
        self.assertEqual(
            self.ends([shell("good", "echo text"), shell("bad", "echo cause >&2; exit 7")]),
            {"good": 0, "bad": 7},
        )
        self.assertEqual((self.logs / "bad.log").read_text(), "cause\n")

    def test_needs_come_first_and_failed_ones_skip_what_follows(self):
        ready = self.logs / "ready"
        jobs = [
            shell("second", f"test -e {ready}", needs=("first",)),
            shell("first", f"sleep 0.1; touch {ready}"),
        ]
        self.assertEqual(self.ends(jobs), {"first": 0, "second": 0})
        jobs = [
            shell("third", "true", needs=("second",)),
            shell("second", "true", needs=("first",)),
            shell("first", "false"),
        ]
        self.assertEqual(self.ends(jobs), {"first": 1, "second": None, "third": None})

    def test_jobs_of_one_turn_never_overlap(self):
        script = f"mkdir {self.logs}/taken && sleep 0.1 && rmdir {self.logs}/taken"
        jobs = [shell(f"job{i}", script, turn="one", cores=0.1) for i in range(4)]
        self.assertEqual(set(self.ends(jobs).values()), {0})

    def test_jobs_that_wait_run_side_by_side(self):
        meet = f"mkfifo {self.logs}/pipe 2> /dev/null; "
        jobs = [
            shell("reads", meet + f"read word < {self.logs}/pipe", cores=0.1, limit=60),
            shell("writes", meet + f"echo word > {self.logs}/pipe", cores=0.1, limit=60),
        ]
        self.assertEqual(self.ends(jobs, cores=1), {"reads": 0, "writes": 0})

    def test_a_hanging_job_ends_with_all_its_processes(self):
        job = shell(
            "hangs",
            f"sleep 1000 & echo $! > {self.logs}/pid.new; mv {self.logs}/pid.new {self.logs}/pid; wait",
        )
        running = Running(job, self.logs / "log")
        running.check_limit()
        self.assertFalse(running.hung)
        while not (self.logs / "pid").exists():
            time.sleep(0.01)
        job.limit = 0
        running.check_limit()
        result = running.result()
        self.assertTrue(result.hung and not result.passed)
        self.assertEqual(list(session_members(running.process.pid)), [])
        sleeper = Path("/proc", (self.logs / "pid").read_text().strip(), "stat")
        self.assertTrue(
            not sleeper.exists() or sleeper.read_text().rpartition(")")[2].split()[0] == "Z"
        )

    def test_discovered_jobs_run(self):
        self.assertEqual(
            self.ends([shell("build", "true", discover=lambda result: [shell("found", "exit 3")])]),
            {"build": 0, "found": 3},
        )


class TableTests(unittest.TestCase):
    def test_each_row_of_changed_names_files_that_exist(self):
        for path, _ in changed.TABLE:
            self.assertTrue(
                list(steps.ROOT.glob(path + "*")) or list(steps.ROOT.glob(path.rstrip("/"))), path
            )

    def test_words_follow_the_changed_files(self):
        self.assertIn("ginrs::gin", changed.words(["src/gin/proxy.rs"]))
        self.assertEqual(changed.words(["abi-tests/tests/races.rs"]), ["abi-tests::races"])
        self.assertEqual(changed.words(["abi-tests/races/race.cu"]), ["abi-tests::races"])
        self.assertEqual(changed.words(["docs/gpus.md"]), ["docs", "generated-files"])

    def test_package_names_are_read_from_both_forms_of_ids(self):
        self.assertEqual(steps.package_name("path+file:///a/main#ginrs@0.1.0"), "ginrs")
        self.assertEqual(steps.package_name("path+file:///a/abi-tests#0.1.0"), "abi-tests")

    def test_needs_name_jobs(self):
        known = {job.name for job in steps.builds() + steps.checks() + steps.long()}
        for job in steps.builds() + steps.checks() + steps.long():
            self.assertLessEqual(set(job.needs), known, job.name)


if __name__ == "__main__":
    unittest.main()
