#!/usr/bin/env python3
"""Each dependency in a Cargo.toml of the workspace is named by the sources that may use it: those of the library and the programs for
[dependencies], tests, benches and examples as well for [dev-dependencies], the build script for [build-dependencies]."""
import json
import os
import re
import subprocess
import sys

# (package, dependency): why it may stand there without being named.
ALLOWED = {
    ("ginrs", "mock-driver"): "built beside the tests, which load it as libcuda.so.1",
    ("abi-tests", "mock-driver"): "built beside the tests, which load it as libcuda.so.1",
    ("abi-tests", "libc"): "tests/netns/wire.rs, which its tests share by #[path]",
}
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{.*", re.M | re.S)


def sources(folder):
    for where, _, names in os.walk(folder):
        yield from (os.path.join(where, name) for name in names if name.endswith(".rs"))


def text(files, tests):
    out = []
    for path in sorted(files):
        with open(path, encoding="utf-8") as file:
            code = file.read()
        out.append(re.sub(r"//.*", "", code if tests else TESTS.sub("", code)))
    return "\n".join(out)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    used, problems = set(), []
    for package in packages:
        files = {"lib": set(), "test": set(), "build": set()}
        for target in package["targets"]:
            path, kind = target["src_path"], target["kind"][0]
            if kind == "custom-build":
                files["build"].add(path)
            elif kind in ("test", "bench", "example"):
                files["test"].update(sources(os.path.dirname(path)))
            else:
                files["lib"].update(sources(os.path.dirname(path)))
        for dependency in package["dependencies"]:
            name, kind = dependency["name"], dependency["kind"] or "normal"
            crate = (dependency["rename"] or name).replace("-", "_")
            code = {
                "normal": lambda: text(files["lib"], tests=False),
                "dev": lambda: text(files["lib"] | files["test"], tests=True),
                "build": lambda: text(files["build"], tests=True),
            }[kind]()
            named = re.search(rf"(?<![\w:]){crate}(::|\s+as\s|;)", code)
            where = (package["name"], name)
            if named or where in ALLOWED:
                used.add(where) if not named else None
            else:
                problems.append(
                    f"{os.path.relpath(package['manifest_path'])}: {name} ({kind}) is not used | its sources do not name {crate}:: | fix: remove "
                    "it, move it to the kind that uses it, or argue for it in scripts/check-deps.py"
                )
    problems += [f"scripts/check-deps.py: {where} need not be allowed | it is named, or no dependency" for where in ALLOWED.keys() - used]
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


main()
