#!/usr/bin/env python3
"""What pages name is there, and holds what they say of it.

check-docs.py           the repository's pages
check-docs.py FOLDER    the pages of an installed tree: links only, for sources are not installed

Checked: links and their #anchors; files in backticks; `name` of `file` and name() beside a file: the file has the name; "the table of
`file`", "the trait of `file`": it defines one; `make target`; GINRS_ variables; numbers of errors and warnings; every test that docs/internals/failure-tests.md names."""
import os
import re
import sys

TOPS = "src|include|cuda|tools|abi-tests|scripts|examples-c|models|cpu-device|tests|benches|perf|docs|cmake|pkgconfig"
FILE = r"`((?:[\w.-]+/)*[\w.-]+\.(?:rs|cuh|cu|sh|py|h|txt|in))`"
# Names of files that are the reader's, NVIDIA's or examples of a kind.
OTHERS = {"cuda_runtime.h", "version.txt"}
problems = []


def files_of(root):
    """Every file that a page can mean, relative to `root`."""
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in ("build", "target", ".git")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^( {0,3})```.*?^\1```", "", text, flags=re.M | re.S)
    heads = re.findall(r"^#+ +(.*?) *$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h).lower()).replace(" ", "-") for h in heads}


def check_links(page, text):
    for target in re.findall(r"\]\(([^()\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
        if not os.path.exists(path):
            problems.append(f"{page}: broken link {target}")
        elif anchor and path.endswith(".md") and anchor not in anchors(read(path)):
            problems.append(f"{page}: {path} has no heading for #{anchor}")


def find(name, page, files):
    """The files that a page means by this name."""
    near = os.path.normpath(os.path.join(os.path.dirname(page), name))
    if name in files or near in files:
        return [name if name in files else near]
    return [f for f in files if f.endswith("/" + name)]


def holds(path, name):
    return re.search(r"\b" + re.escape(name) + r"\b", read(path))


KINDS = {"table": r"(?:const|static) \w+: &\[|^macro_rules!|\[\[?\w*\] = \{", "trait": r"\btrait \w+", "macro": r"macro_rules!|#define"}


def check_names(page, text, files):
    for name in re.findall(FILE, text):
        known = re.match(f"(?:{TOPS})/", name) or name.endswith((".rs", ".cuh"))
        if known and name not in OTHERS and not find(name, page, files):
            problems.append(f"{page}: there is no {name}")
    said = re.findall(r"`([\w:]+)(?:\(\))?` (?:of|in|from) " + FILE, text)
    said += [(name, file) for file, name in re.findall(FILE + r"'s `([\w:]+)(?:\(\))?`", text)]
    said += re.findall(r"`([\w:]+)(?:\(\))?` \(" + FILE + r"\)", text)
    # A line of a drawing: a file, then what it does.
    for line in re.findall(rf"^    .*\b(?:{TOPS})/\S+\.\w+.*$", text, flags=re.M):
        file = re.search(rf"\b(?:{TOPS})/\S+\.\w+", line)
        said += [(name, file[0]) for name in re.findall(r"\b(\w+)\(\)", line[file.end():])]
    for name, file in said:
        if re.fullmatch(r"\d+|[A-Z]\d+", name):
            continue
        found = find(file, page, files)
        if found and not any(holds(f, name.split("::")[-1]) for f in found):
            problems.append(f"{page}: {file} does not have {name}")
    for kind, file in re.findall(r"\b(table|trait|macro) (?:of|in) " + FILE, text):
        found = find(file, page, files)
        if found and not any(re.search(KINDS[kind], read(f), flags=re.M) for f in found):
            problems.append(f"{page}: {file} defines no {kind}")


def check_tests(page, text):
    """Each name of a row is a test of the file that comes behind it."""
    for row in re.findall(r"^\| [FD]\d.*$", text, flags=re.M):
        rest = re.split(r"`([\w/.-]+\.rs)`", row)
        for names, file in zip(rest[0::2], rest[1::2]):
            for name in re.findall(r"`(\w+)`", names):
                if not re.search(rf"\bfn {name}\(", read(file)):
                    problems.append(f"{page}: {file} has no test {name}")
        if len(rest) == 1:
            problems.append(f"{page}: no test: {row}")


def check_words(page, text, targets, variables, numbers):
    for target in re.findall(r"`make ([a-z][a-z-]*)\b", text):
        if target not in targets:
            problems.append(f"{page}: the Makefile has no target {target}")
    for name in set(re.findall(r"\bGINRS_[A-Z0-9_]*[A-Z0-9]\b(?!\*)", text)):
        if name not in variables:
            problems.append(f"{page}: nothing reads {name}")
    for number in set(re.findall(r"\b[EW]\d{3}\b", text)) - numbers:
        problems.append(f"{page}: docs/errors.md has no {number}")


def main():
    installed = len(sys.argv) > 1
    os.chdir(sys.argv[1] if installed else os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = set(files_of("."))
    pages = sorted(f for f in files if f.endswith(".md"))
    if not pages:
        sys.exit(f"{os.getcwd()}: no pages")
    if not installed:
        targets = set(re.findall(r"^([a-z][a-z-]*):", read("Makefile"), flags=re.M))
        sources = [f for f in files if not f.endswith(".md") and re.match(f"(?:{TOPS})/|Makefile|build.rs", f)]
        variables = set(re.findall(r"GINRS_[A-Z0-9_]*[A-Z0-9]", "\n".join(map(read, sources))))
        numbers = set(re.findall(r"\b[EW]\d{3}\b", read("docs/errors.md")))
    for page in pages:
        text = read(page)
        check_links(page, text)
        if not installed and page != "CHANGELOG.md":
            check_names(page, text, files)
            if page == "docs/internals/failure-tests.md":
                check_tests(page, text)
            check_words(page, text, targets, variables, numbers)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


main()
