#!/usr/bin/env python3
"""Guards the checks themselves: each must find the breach that it is there for, and must pass what is right."""

import tempfile
import unittest
from pathlib import Path

import check_docs
import check_exports
import check_includes
import check_sources
import check_words


class Tree(unittest.TestCase):
    """A small project in a temporary folder, outside git."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def assert_one(self, problems, *words):
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])


class Includes(Tree):
    def setUp(self):
        super().setUp()
        for name in ("base/error.h", "format/meta.h", "format/gguf.h", "quant/tier.h", "kernels/kernels.h",
                     "engine/cpu/engine.h", "model/model.h", "pack/pack.h", "text/tokenizer.h"):
            self.put(f"src/{name}", "/* x */\n")
        self.put("include/ork/ork.h", "/* x */\n#include <stdint.h>\n")
        self.put("cli/commands.h", "/* x */\n")

    def test_the_ways_that_are_allowed(self):
        self.put("src/model/a.c", '#include "text/tokenizer.h"\n#include "engine/cpu/engine.h"\n#include "ork/ork.h"\n')
        self.put("src/text/b.c", '#include "format/meta.h"\n#include "base/error.h"\n')
        self.put("src/pack/c.c", '#include "model/model.h"\n#include "kernels/kernels.h"\n')
        self.put("cli/d.c", '#include "commands.h"\n#include "ork/ork.h"\n#include <jansson.h>\n')
        self.put("src/base/e.c", '/* #include "model/model.h" */\n#include <stdio.h>\n')
        self.assertEqual(check_includes.check(self.root), [])

    def test_every_way_back_is_found(self):
        for room, target in (("base", "format/meta.h"), ("format", "quant/tier.h"), ("quant", "kernels/kernels.h"),
                             ("kernels", "format/gguf.h"), ("kernels", "engine/cpu/engine.h"),
                             ("engine", "model/model.h"), ("text", "format/gguf.h"), ("text", "model/model.h"),
                             ("model", "pack/pack.h"), ("pack", "engine/cpu/engine.h"), ("pack", "text/tokenizer.h")):
            with self.subTest(room=room, target=target):
                self.put(f"src/{room}/bad.c", f'/* x */\n  #  include "{target}"\n')
                self.assert_one(check_includes.check(self.root), f"src/{room}/bad.c:2", target)
                (self.root / f"src/{room}/bad.c").unlink()

    def test_programs_see_only_the_public_header(self):
        self.put("cli/bad.c", '#include "base/error.h"\n')
        self.assert_one(check_includes.check(self.root), "cli/bad.c:1")

    def test_paths_start_at_src(self):
        self.put("src/model/bad.c", '#include "model.h"\n')
        self.assert_one(check_includes.check(self.root), "not a path from src/")
        self.put("src/model/bad.c", "#include <base/error.h>\n")
        self.assert_one(check_includes.check(self.root), "quotes")

    def test_the_public_header_stands_alone(self):
        self.put("include/ork/ork.h", '#include "base/error.h"\n')
        self.assert_one(check_includes.check(self.root), "stand alone")

    def test_a_folder_that_is_no_room(self):
        self.put("src/misc/a.c", "/* x */\n")
        self.assert_one(check_includes.check(self.root), "no room")


class Exports(Tree):
    HEADER = "#define ORK_API\n/* ORK_API void ork_old(void); */\nORK_API int ork_a(int (*f)(int));\n" \
             "ORK_API const char *const *ork_b(\n    void);\n"

    def test_agreement_and_differences(self):
        self.put("include/ork/ork.h", self.HEADER)
        self.put("src/ork.map", "{ global: ork_a; ork_b; local: *; };\n")
        self.assertEqual(check_exports.check(self.root), [])
        self.put("src/ork.map", "{ global: ork_a; ork_c; local: *; };\n")
        self.assertEqual(len(check_exports.check(self.root)), 2)
        self.put("src/ork.map", "{ global: ork_a; };\n")
        self.assert_one(check_exports.check(self.root), "ork.map")


class Sources(Tree):
    def test_good_file(self):
        self.put("src/base/a.c", '/* Owns. */\nstatic void f(void)\n{\n    /* printf(") */\n    g("printf(x)");\n}\n')
        self.assertEqual(check_sources.check(self.root), [])

    def test_no_opening_comment(self):
        self.put("src/base/a.c", "#include <stdio.h>\n")
        self.assert_one(check_sources.check(self.root), "comment")

    def test_long_file(self):
        self.put("src/base/a.c", "/* Owns. */\n" + "\n" * 999)
        self.assert_one(check_sources.check(self.root), "1000 lines")

    def test_function_lengths(self):
        body = "    x();\n" * 117
        self.put("src/base/a.c", "/* Owns. */\nstruct s {\n" + "    int i;\n" * 200 + "};\n"
                 f"static int\nlong_one(int a, void (*f)(int), int c)\n{{\n{body}}}\n")
        self.assert_one(check_sources.check(self.root), "long_one() has 121 lines", "a.c:204")
        self.put("src/base/a.c", "/* Owns. */\nint f(void)\n{\n    if (a) {\n" + "        y();\n" * 70 +
                 "    }\n}\nvoid g(void)\n{\n}\n")
        listed = []
        self.assertEqual(check_sources.check(self.root, listed), [])
        self.assert_one(listed, "f() has 75 lines", "a.c:2")

    def test_forbidden_calls(self):
        for call in ("printf(x)", "exit (1)", "abort()", "fputs(x, stderr)", "strcpy(a, b)", "perror(x)"):
            with self.subTest(call=call):
                self.put("src/base/a.c", f"/* Owns. */\nvoid f(void)\n{{\n    {call};\n}}\n")
                self.assert_one(check_sources.check(self.root), "a.c:4")
        for call in ("snprintf(a, 1, x)", "ork_error_set(x)", "object->exit(1)", "fprintf(file, x)"):
            with self.subTest(call=call):
                self.put("src/base/a.c", f"/* Owns. */\nvoid f(void)\n{{\n    {call};\n}}\n")
                self.assertEqual(check_sources.check(self.root), [])
        self.put("src/base/a.c", "/* Owns. */\n")
        self.put("cli/a.c", "/* Owns. */\nvoid f(void)\n{\n    printf(x);\n    exit(0);\n}\n")
        self.assertEqual(check_sources.check(self.root), [])


class Words(Tree):
    def test_each_kind(self):
        for text, word in (("see https://files." + "python" + "hosted.org/x", "registry"), ("a TO" + "DO here", "unfinished"),
                           ("cd /wo" + "rk/main", "workplace")):
            self.put("docs/a.md", f"first\n{text}\n")
            self.assert_one(check_words.check(self.root), "a.md:2", word)

    def test_what_only_looks_alike(self):
        self.put("docs/a.md", "the PyPI package, Debian's apt, a homework/ folder, todolist, https://example.org\n")
        self.put("models/x.gguf", "\0")
        self.assertEqual(check_words.check(self.root), [])


class Docs(Tree):
    def test_commands(self):
        text = "usage: ork\n\ncommands:\n  pack     pack a file\n  run      run it\n\n  ork pack x\n"
        self.assertEqual(check_docs.commands(text), ["pack", "run"])
        self.put("README.md", "`ork run` and `ork pack`\n")
        manual = ".B pack\nand \\fBrun\\fR\n"
        self.assertEqual(check_docs.missing_commands(self.root, ["run", "pack"], manual), [])
        self.assertEqual(len(check_docs.missing_commands(self.root, ["run", "bench"], manual)), 2)
        self.put("docs/man/ork-old.1.in", ".SH X\n")
        self.assert_one(check_docs.missing_commands(self.root, ["run", "pack"], manual), "ork-old")
        self.assertIn("no commands", check_docs.missing_commands(self.root, [], manual)[0])

    def test_links(self):
        self.put("docs/a.md", "[x](../README.md) [y](b.md#part) [z](https://example.org)\n")
        self.assertEqual(len(check_docs.broken_links(self.root)), 2)
        self.put("README.md", "")
        self.put("docs/b.md", "")
        self.assertEqual(check_docs.broken_links(self.root), [])


if __name__ == "__main__":
    unittest.main()
