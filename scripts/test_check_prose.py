#!/usr/bin/env python3
"""Tests of check-prose, on small trees with terms and baselines that the tests write."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
loader = importlib.machinery.SourceFileLoader("check_prose", os.path.join(HERE, "check-prose"))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_prose", loader))
loader.exec_module(check)

TERMS = """# A comment.
zork -> frob
find: zorks?; zorked
allow: zorked (cheese|bread)

zork on -> resume
find: zorks? on

Qux as the subject -> a noun
start: Qux(?![^.!?]*\\?)
in: comments markdown
"""


def words(count, end="."):
    return " ".join(["word"] * count) + end


class Tree:
    """A repository with one commit on main, in a temporary folder."""

    def __init__(self, **files):
        self.folder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(self.folder.cleanup)
        self.write("scripts/prose-terms.txt", TERMS)
        for name, text in files.items():
            self.write(name.replace("__", "."), text)
        self.git("init", "-q", "-b", "main")
        self.commit()
        assert self.run("--bless")[0] == 0
        self.commit()

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.folder.name, name), encoding="utf-8") as file:
            return file.read()

    def git(self, *args):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, "-C", self.folder.name, *args], check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "Change")

    def run(self, *args):
        out, before = io.StringIO(), os.getcwd()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                status = check.main(["--root", self.folder.name, *args])
        finally:
            os.chdir(before)
        return status, out.getvalue()


def markdown(text):
    return [(category, line) for category, line, _ in check.check_markdown(text, check.Terms(TERMS))]


def code(name, text):
    return [(category, line) for category, line, _ in check.check_code(name, text, check.Terms(TERMS))]


class Markdown(unittest.TestCase):
    def test_long_lines_are_found_outside_tables_and_code(self):
        long = "abcdefghi " * 9 + "abcdefghijk"
        self.assertEqual(markdown("short\n" + long), [(check.LINES, 2)])
        self.assertEqual(markdown(long[:-1]), [])
        self.assertEqual(markdown("a" + "b" * 101), [], "a single word cannot be wrapped")
        for exempt in (f"| {long} | {long} |", f"```\n{long}\n```", f"text\n\n    {long}", f"<!-- {long} -->"):
            self.assertEqual(markdown(exempt), [], exempt[:20])

    def test_text_of_a_list_is_no_code(self):
        self.assertEqual(markdown("1. item\n\n   text zorks"), [("markdown terms", 3)])
        self.assertEqual(markdown("- a\n  - b\n\n    text zorks"), [("markdown terms", 4)])
        self.assertEqual(markdown("- a\n\ntext\n\n    zorks"), [])

    def test_cells_have_at_most_40_words(self):
        self.assertEqual(markdown(f"| a | {words(40)} |"), [])
        self.assertEqual(markdown(f"| a |\n|---|\n| {words(41)} |"), [(check.CELLS, 3)])

    def test_a_pipe_in_code_ends_no_cell(self):
        self.assertEqual(markdown(f"| {words(30)} `a|b` {words(30)} |"), [(check.CELLS, 1)])

    def test_sentences_have_at_most_35_words(self):
        self.assertEqual(markdown(words(35).replace(" ", "\n")), [])
        long = "Short one.\nA\n" + words(35).replace(" ", "\n")
        self.assertEqual(markdown(long), [(check.SENTENCES, 2)])
        self.assertEqual(markdown(f"- {words(18)}\n- {words(18)}"), [], "each item is a text")

    def test_paragraphs_have_at_most_120_words(self):
        lines = ["Word " + words(19)] * 6
        self.assertEqual(markdown("\n".join(lines)), [])
        self.assertEqual(markdown("\n".join(lines + ["More."])), [(check.PARAGRAPHS, 1)])
        self.assertEqual(markdown("\n".join(lines) + "\n\nMore."), [])

    def test_code_and_targets_are_not_read(self):
        self.assertEqual(markdown("`zork` [a](zork.md) https://zork.example/zork"), [])
        self.assertEqual(markdown("a\n[zork](b.md)"), [("markdown terms", 2)])


class Code(unittest.TestCase):
    def test_comments_and_strings_of_each_language(self):
        sources = {
            "a.rs": '/// A zork.\nfn zork() { print("the zork is") }\n',
            "a.cu": '/* A zork. */\nint zork = f("the zork is");\n',
            "a.py": '# A zork.\nzork("the zork is")\n',
            "a.sh": '# A zork.\nzork "the zork is"\n',
        }
        for name, text in sources.items():
            self.assertEqual(code(name, text), [("comments terms", 1), ("strings terms", 2)], name)

    def test_line_numbers_in_runs_of_comments(self):
        self.assertEqual(code("a.rs", "fn a() {}\n    // one\n    // two zorks\n"), [("comments terms", 3)])
        self.assertEqual(code("a.py", '"""One.\n\nA zork."""\n'), [("comments terms", 3)])

    def test_a_term_over_two_lines_is_found(self):
        hits = list(check.check_code("a.rs", "// it zorks\n// on\n", check.Terms(TERMS)))
        self.assertEqual(hits, [("comments terms", 1, "it [zorks on] | write: resume")])

    def test_quotes_hide_nothing(self):
        both = [("comments terms", 1), ("comments terms", 2)]
        self.assertEqual(code("a.rs", "a('\"'); // a zork\nfn f<'a>(b: &'a u8) {} // a zork\n"), both)
        self.assertEqual(code("a.rs", 'a(r#"b "c" d "#); // a zork\nb("c:\\\\"); // a zork\n'), both)
        self.assertEqual(code("a.sh", "echo $# # a zork\n"), [("comments terms", 1)])

    def test_code_is_not_read(self):
        text = '// `zork`\n// ```\n// zork\n// ```\nlet zork = "zork";\nf("{zork} done");\n'
        self.assertEqual(code("a.rs", text), [])

    def test_long_comment_lines_are_found(self):
        long = "a " * 49
        self.assertEqual(code("a.rs", f"// {long[:-1]}\n"), [], "100 columns")
        text = f"// short\n// {long}\nlet a = 1; // {long}\n"
        self.assertEqual(code("a.rs", text), [(check.COMMENT_LINES, 2), (check.COMMENT_LINES, 3)])
        self.assertEqual(code("a.rs", f'let a = f("{long}");\n'), [])


class TermTable(unittest.TestCase):
    def found(self, text, area="comments"):
        return [(row["name"], text[a:b]) for row, a, b in check.Terms(TERMS).find(area, text)]

    def test_allowed_phrases_and_longer_phrases(self):
        self.assertEqual(self.found("It Zorks, zorked cheese"), [("zork", "Zorks")])
        self.assertEqual(self.found("it zorks\n on"), [("zork on", "zorks\n on")])
        self.assertEqual(self.found("zorkish"), [])

    def test_starts_of_sentences(self):
        self.assertEqual(self.found("Qux is. Qux was. A Qux. qux"), [("Qux as the subject", "Qux")] * 2)
        self.assertEqual(self.found("Qux was it?"), [])
        self.assertEqual(self.found("Qux is.", "strings"), [])

    def test_each_term_of_the_project_finds_its_example(self):
        with open(os.path.join(HERE, "prose-terms.txt"), encoding="utf-8") as file:
            terms = check.Terms(file.read())
        self.assertGreater(len(terms.rows), 40)
        for row in terms.rows:
            self.assertTrue(row["standard"], row["name"])
            area = row["in"].split()[0]
            self.assertEqual([hit[0]["name"] for hit in terms.find(area, row["bad"])], [row["name"]], row["bad"])
            self.assertEqual([hit[0]["name"] for hit in terms.find(area, row["good"])], [], row["good"])
            self.assertEqual([hit[0]["name"] for hit in terms.find(area, row["standard"])], [], row["standard"])


class Baseline(unittest.TestCase):
    def test_each_category_may_not_rise(self):
        added = {
            check.LINES: ("b.md", "abcdefghi " * 11),
            check.CELLS: ("b.md", f"| {words(41)} |"),
            check.SENTENCES: ("b.md", words(36).replace(" ", "\n")),
            check.PARAGRAPHS: ("b.md", "\n".join(["Word " + words(19)] * 7)),
            check.COMMENT_LINES: ("b.rs", "// " + "a " * 51),
            "markdown terms": ("b.md", "a zork"),
            "comments terms": ("b.rs", "// a zork"),
            "strings terms": ("b.rs", 'f("a zork");'),
        }
        self.assertEqual(set(added), set(check.CATEGORIES))
        for category, (name, text) in added.items():
            tree = Tree(a__md="It zorks.\n", a__rs="// a zork\n")
            self.assertEqual(tree.run(), (0, ""))
            tree.write(name, text)
            status, out = tree.run()
            self.assertEqual(status, 1, category)
            self.assertIn(f"check-prose: {category} | ", out)
            self.assertIn(f"  {name}:1: ", out)

    def test_only_changed_lines_are_printed(self):
        tree = Tree(a__md="An old zork.\n", b__md="Old zork.\n\nText.\n")
        tree.git("checkout", "-q", "-b", "topic")
        tree.write("b.md", "Old zork.\n\nA new zork.\n")
        tree.commit()
        for _ in range(2):
            status, out = tree.run()
            self.assertEqual(status, 1)
            self.assertIn("markdown terms | 3 found, at most 2 allowed", out)
            self.assertIn("  b.md:3: A new [zork]. | write: frob\n", out)
            self.assertNotIn("a.md", out)
            self.assertNotIn("b.md:1", out)
            tree.git("checkout", "-q", "main")  # then the same on main, in the last commit
            tree.git("merge", "-q", "topic")
        self.assertIn("  a.md:1: ", tree.run("--all")[1])

    def test_a_lower_count_passes_and_bless_writes_it(self):
        tree = Tree(a__md="A zork.\n\nA zork.\n")
        tree.write("a.md", "A zork.\n")
        status, out = tree.run()
        self.assertEqual(status, 0)
        self.assertIn("markdown terms 2 -> 1", out)
        self.assertIn("scripts/check-prose --bless", out)
        self.assertEqual(tree.run("--bless"), (0, ""))
        self.assertRegex(tree.read("scripts/prose-baseline.txt"), "markdown terms +1\n")

    def test_bless_writes_no_higher_count(self):
        tree = Tree(a__md="A zork.\n")
        before = tree.read("scripts/prose-baseline.txt")
        tree.write("b.md", "A zork.\n")
        self.assertEqual(tree.run("--bless")[0], 1)
        self.assertEqual(tree.read("scripts/prose-baseline.txt"), before)

    def test_a_category_without_a_baseline_fails(self):
        tree = Tree(a__md="Text.\n")
        tree.write("scripts/prose-baseline.txt", "markdown terms 0\n")
        self.assertEqual(tree.run()[0], 1)
        self.assertEqual(tree.run("--bless")[0], 0)

    def test_what_cannot_be_read_is_an_error(self):
        tree = Tree(a__md="Text.\n")
        self.assertEqual(tree.run("--base", "no-such-commit")[0], 2)
        tree.write("scripts/prose-terms.txt", "a -> b\nfind: (\n")
        self.assertEqual(tree.run()[0], 2)

    def test_ignored_files_are_not_read(self):
        tree = Tree(a__md="Text.\n", **{".gitignore": "build\n"})
        tree.write("build/a.md", "A zork.\n")
        tree.write("fuzz/corpus/b.rs", "// a zork\n")
        self.assertEqual(tree.run(), (0, ""))


if __name__ == "__main__":
    unittest.main()
