"""The table of the suite: builds, checks, and the jobs of Rust's test binaries."""

import functools
import json
import os
import subprocess
from pathlib import Path

from pool import Job

ROOT = Path(__file__).resolve().parents[2]
VENV = os.environ.get("GINRS_TEST_VENV", str(ROOT / "build/venv"))
ENV = {"GINRS_PREFIX": str(ROOT / "build/prefix"), "GINRS_TEST_VENV": VENV}

# One set of packages for each profile: another set may have other features, and is built again.
PACKAGES = [
    "ginrs",
    "ginrs-timeline",
    "ginrs-cpu",
    "ginrs-baton",
    "ginrs-tools",
    "ginrs-info",
    "header-gen",
    "mock-driver",
]
SELECT = [word for package in PACKAGES for word in ("-p", package)]

SANITIZE = ["scripts/sanitize.sh"]
STAGED_DOCS = "build/prefix/share/doc/ginrs"

# Tests of these binaries use a resource of the machine that one test at a time can have.
TURNS = {
    "ginrs::bootstrap": "bootstrap",
    "ginrs::flood": "flood",
    "ginrs::machines": "namespaces",
    "abi-tests::networks": "namespaces",
    "abi-tests::chaos": "chaos",
    "abi-tests::install": "install",
}

# Test binaries without Rust's harness: one job each.
WHOLE = {"ginrs::simulation"}


def step(name, *argv, **options):
    return Job(name, list(argv), cwd=str(ROOT), env=ENV, **options)


def builds():
    """Jobs whose outputs other jobs need. Two cargo commands of one profile wait for each other, so
    the second one needs the first."""
    unit = ["cargo", "test", "-q", *SELECT, "--no-run", "--message-format=json-render-diagnostics"]
    abi = [
        "cargo",
        "test",
        "-q",
        "-p",
        "abi-tests",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]
    return [
        step("stage", "make", "-s", "stage", first=True, cores=1.0, limit=1800),
        step("build-unit", *unit, first=True, limit=1800, discover=tests_of),
        step("build-abi", *abi, needs=("build-unit",), first=True, limit=1800, discover=tests_of),
    ]


def checks():
    """The jobs of `make test` apart from Rust tests."""
    header_gen = ["cargo", "run", "-q", "-p", "header-gen", "--"]
    clippy = ["cargo", "clippy", "-q", "-p", "ginrs", "--all-targets", "--", "-D", "warnings"]
    # Cargo commands of one profile would wait for each other's lock.
    debug = {"needs": ("build-abi",), "turn": "debug"}
    return [
        step("docs", "scripts/check-docs.py"),
        step("docs-staged", "scripts/check-docs.py", STAGED_DOCS, needs=("stage",)),
        step("prose", "scripts/check-prose"),
        step("prose-tests", "python3", "scripts/test_check_prose.py"),
        step("dependencies", "scripts/check-deps.py"),
        step("suite", "python3", "-m", "unittest", "discover", "-q", "-s", "scripts/suite"),
        step("generated-files", *header_gen, "check", **debug),
        step("clippy", *clippy, **debug),
        step("doc-examples", "cargo", "test", "-q", *SELECT, "--doc", **debug),
        step("loom", "scripts/loom.sh", needs=("stage",)),
        step("sanitizer-address-smoke", *SANITIZE, "address", "smoke", needs=("stage",)),
        step("sanitizer-thread-smoke", *SANITIZE, "thread", "smoke", needs=("stage",)),
    ]


def long():
    """Jobs of `make test-all` alone: all sanitizers, long fuzzing, all compilers, many seeds."""
    simulation = ["cargo", "test", "--release", "-q", "-p", "ginrs", "--test", "simulation", "--"]
    hours = {"needs": ("stage",), "limit": 4 * 3600, "turn": "long"}
    return [
        step("sanitizer-address", *SANITIZE, "address", **hours),
        step("sanitizer-thread", *SANITIZE, "thread", **hours),
        step("fuzz", "scripts/fuzz.sh", "60", **hours),
        step("compile-matrix", "scripts/abi-full.sh", **hours),
        step("simulation-seeds", *simulation, "--seeds", "1000", **hours),
        step("chaos-seeds", "scripts/chaos.sh", "200", "1", **hours),
        step("network-seeds", "scripts/chaos-net.sh", "20", "1", **hours),
        step("soak", "scripts/soak.sh", "10", **hours),
    ]


def tests_of(result):
    """Returns a job for each test of the binaries that `cargo test --no-run` reported."""
    jobs, build = [], result.job.name
    for line in result.log.read_text(errors="replace").splitlines():
        if not line.startswith('{"reason":"compiler-artifact"'):
            continue
        artifact = json.loads(line)
        if not artifact["profile"]["test"] or not artifact["executable"]:
            continue
        package = package_name(artifact["package_id"])
        target = artifact["target"]
        kind = target["kind"][0]
        if package == "abi-tests":
            needs = (build, "stage")
        else:
            needs = (build,)
        name = f"{package}::{target['name']}" if kind in ("test", "bin") else package
        folder = str(Path(artifact["manifest_path"]).parent)
        jobs += jobs_of(name, artifact["executable"], folder, needs)
    return jobs


def package_name(package_id):
    """Reads both forms of ids: `path+file:///a/b#name@0.1.0` and `path+file:///a/name#0.1.0`."""
    path, _, fragment = package_id.partition("#")
    return fragment.partition("@")[0] if "@" in fragment else path.rsplit("/", 1)[-1]


def jobs_of(name, binary, folder, needs):
    env = {
        **ENV,
        "CARGO_MANIFEST_DIR": folder,
        "RUST_BACKTRACE": os.environ.get("RUST_BACKTRACE", "0"),
    }
    # As under `cargo test`: the libraries built with the tests, and the toolchain of the build;
    # rustup would choose another one in the folder of a crate that names one.
    env["LD_LIBRARY_PATH"] = ":".join(
        filter(None, [str(Path(binary).parent), os.environ.get("LD_LIBRARY_PATH", "")])
    )
    env["PATH"] = f"{sysroot()}/bin:{os.environ['PATH']}"
    turn = TURNS.get(name, "")
    if name in WHOLE:
        return [Job(name, [binary], cwd=folder, env=env, needs=needs, turn=turn)]
    return [
        Job(
            f"{name}::{test}",
            [binary, "--exact", test, "--nocapture"],
            cwd=folder,
            env=env,
            needs=needs,
            turn=turn,
        )
        for test in list_tests(binary, folder, env)
    ]


@functools.cache
def sysroot():
    return subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    ).stdout.strip()


def list_tests(binary, folder, env):
    listed = {}
    for ignored in (False, True):
        words = [binary, "--list", "--format", "terse"] + (["--ignored"] if ignored else [])
        out = subprocess.run(
            words, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=True
        ).stdout
        listed[ignored] = {
            line[: -len(": test")] for line in out.splitlines() if line.endswith(": test")
        }
    return sorted(listed[False] - listed[True])
