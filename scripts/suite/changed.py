"""Selects the jobs that a change touches: the first row that is the beginning of a changed file's
path gives words of job names.

A row lists the jobs that find a fault in these files early; `make test` runs everything. `{1}` is
the second folder of the path, or its file name without the ending."""

import os
import re
import subprocess

from steps import ROOT

# Programs over all transports and modes.
PROGRAMS = "abi-tests::programs abi-tests::twice"

TABLE = [
    (
        "src/gin/",
        "ginrs::gin ginrs::devcomm ginrs::flood ginrs::windows ginrs::leaks abi-tests::lawful "
        + PROGRAMS,
    ),
    ("src/coll/", "ginrs::coll abi-tests::collective abi-tests::communicators abi-tests::cuda"),
    (
        "src/transport/",
        "ginrs::transport ginrs::gin ginrs::ofi abi-tests::machines abi-tests::card " + PROGRAMS,
    ),
    (
        "src/bootstrap/",
        "ginrs::bootstrap ginrs::dead_in_init ginrs::machines ginrs::rounds ginrs-tools::bootstrap abi-tests::machines",
    ),
    (
        "src/watch/",
        "ginrs::watch ginrs::idle_peers ginrs::dead_in_init abi-tests::faults abi-tests::chaos",
    ),
    ("src/abort", "ginrs::abort ginrs::gin_faults ginrs::gin_stuck abi-tests::faults"),
    ("src/comm/", "ginrs::comm ginrs::team abi-tests::communicators abi-tests::exits"),
    ("src/team/", "ginrs::team abi-tests::communicators abi-tests::programs"),
    ("src/devcomm/", "ginrs::devcomm abi-tests::layout " + PROGRAMS),
    ("src/window/", "ginrs::window ginrs::symmetric abi-tests::misuse " + PROGRAMS),
    ("src/symmetric/", "ginrs::window ginrs::symmetric " + PROGRAMS),
    ("src/device/", "ginrs::device ginrs::cuda_device abi-tests::cuda " + PROGRAMS),
    ("src/verbs/", "ginrs::verbs abi-tests::card abi-tests::gdaki abi-tests::soft_layouts"),
    ("src/nic/", "ginrs::nic abi-tests::card abi-tests::gdaki"),
    ("src/config/", "ginrs::config ginrs::settings abi-tests::messages"),
    ("src/log/", "ginrs::log abi-tests::messages"),
    ("src/codes.txt", "generated-files docs ginrs::errors ginrs::advice abi-tests::messages"),
    (
        "src/abi/",
        "generated-files ginrs::errors abi-tests::symbols abi-tests::versions abi-tests::misuse "
        + PROGRAMS,
    ),
    ("src/", "ginrs::{1} " + PROGRAMS),
    ("tests/support/", "ginrs::"),
    ("tests/common/", "ginrs::"),
    ("tests/", "ginrs::{1}"),
    (
        "cpu-device/",
        "ginrs-cpu abi-tests::cpu_kernels abi-tests::hangs abi-tests::races " + PROGRAMS,
    ),
    ("cuda/collectives/", "abi-tests::collectives abi-tests::collective_faults abi-tests::mixed"),
    (
        "cuda/cpu/",
        "abi-tests::cpu_kernels abi-tests::headers abi-tests::users abi-tests::mixed " + PROGRAMS,
    ),
    ("cuda/", PROGRAMS),
    (
        "include/",
        "generated-files abi-tests::headers abi-tests::layout abi-tests::matrix abi-tests::mixed "
        + PROGRAMS,
    ),
    ("tools/header-gen/", "header-gen generated-files"),
    ("tools/info/", "ginrs-info"),
    ("tools/gdb/", "abi-tests::debugger"),
    (
        "tools/src/cc/",
        "ginrs-tools abi-tests::cpu_kernels abi-tests::users abi-tests::coverage abi-tests::clangd abi-tests::toolkit",
    ),
    ("tools/src/rewrite/", "ginrs-tools abi-tests::cpu_kernels abi-tests::users abi-tests::races"),
    ("tools/src/timeline/", "ginrs-tools ginrs-timeline abi-tests::timeline"),
    ("tools/", "ginrs-tools abi-tests::programs abi-tests::explore abi-tests::workflow"),
    ("timeline/", "ginrs-timeline abi-tests::timeline"),
    ("baton/", "ginrs-baton ginrs::simulation abi-tests::explore"),
    ("models/", "loom"),
    ("fuzz/", "fuzz"),
    ("abi-tests/mock-driver/", "mock-driver ginrs::cuda_device abi-tests::cuda"),
    ("abi-tests/soft-verbs/", "abi-tests::card abi-tests::gdaki abi-tests::soft_layouts"),
    ("abi-tests/src/", PROGRAMS),
    ("abi-tests/tests/", "abi-tests::{2}"),
    ("abi-tests/cpu-kernels/", "abi-tests::cpu_kernels"),
    ("abi-tests/theirs/", "abi-tests::theirs"),
    ("abi-tests/", "abi-tests::{1}"),
    ("examples-c/", PROGRAMS),
    ("perf/", "abi-tests::perf"),
    ("scripts/suite/", "suite"),
    ("scripts/", "abi-tests::install abi-tests::link"),
    ("pkgconfig/", "abi-tests::install"),
    ("cmake/", "abi-tests::install"),
    ("exports.map", "abi-tests::symbols"),
    ("Cargo", "dependencies clippy"),
    ("docs/", "docs"),
    ("benches/", "clippy"),
]


def files(base):
    """Returns the commit compared with, and the files of the work tree that differ from it."""

    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split("\n")

    if not base:
        known = subprocess.run(
            ["git", "merge-base", "HEAD", "origin/main"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        base = known.stdout.strip() or "HEAD"
    changed = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return base, sorted({name for name in changed if name})


def words(names):
    """Words for the names of the jobs, without repetition."""
    found = {}
    for name in names:
        for word in words_of(name).split():
            found[word] = True
    return list(found)


def words_of(name):
    if name.endswith(".md"):
        return "docs generated-files"
    for path, row in TABLE:
        if name.startswith(path):
            return re.sub(r"\{(\d)\}", lambda m: part(name, int(m[1])), row)
    return ""


def part(name, at):
    """Returns the folder or file at a depth: `gin_order` of `abi-tests/tests/gin_order.rs`, 2."""
    parts = name.split("/")
    return os.path.splitext(parts[min(at, len(parts) - 1)])[0]
