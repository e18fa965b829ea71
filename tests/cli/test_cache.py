"""A GGUF where a model is wanted: packed once into a cache, found again, made anew when anything it depends on changes."""

import os
import subprocess
import unittest

from support import COMMAND, DEMO, TIMEOUT, ProgramTest, environment


class Cache(ProgramTest):
    def setUp(self):
        self.cache = self.folder / self.id().rsplit(".", 1)[1]
        self.gguf = self.folder / "model.gguf"
        self.gguf.write_bytes(DEMO.read_bytes())

    def run_model(self, *arguments, model=None, **env):
        env.setdefault("ORK_CACHE_DIR", str(self.cache))
        process = self.ork("run", model or self.gguf, "-p", "The", "-n", "2", "-t", "1", "--temp", "0", *arguments, env=env)
        return "packing" in process.stderr, process.stdout

    def names(self):
        return sorted(path.name for path in (self.cache / "packs").iterdir())

    def test_packed_once(self):
        self.assertEqual(self.run_model()[0], True)
        self.assertEqual(self.run_model()[0], False)
        names = self.names()
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], r"^model-[0-9a-f]{16}\.orkpack$")
        self.ork("verify", self.cache / "packs" / names[0])

    def test_relative_and_absolute_paths_are_one_file(self):
        self.run_model()
        self.assertEqual(self.run_model(model="model.gguf")[0], False)
        self.assertEqual(self.run_model(model="./model.gguf")[0], False)

    def test_other_options_make_another_pack(self):
        self.run_model()
        self.assertEqual(self.run_model("--default-tier", "i8")[0], True)
        self.assertEqual(self.run_model("--default-tier", "i8")[0], False)
        self.assertEqual(self.run_model("--tier", "_exps=i4")[0], True)
        self.assertEqual(self.run_model("--tier", "_exps=i8")[0], True)
        self.assertEqual(len(self.names()), 4)

    def test_a_changed_file_is_packed_again(self):
        self.run_model()
        status = self.gguf.stat()
        os.utime(self.gguf, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        self.assertEqual(self.run_model()[0], True)

    def test_a_damaged_pack_is_made_again(self):
        _, text = self.run_model()
        path = self.cache / "packs" / self.names()[0]
        path.write_bytes(path.read_bytes()[:5000])
        packed, again = self.run_model()
        self.assertTrue(packed)
        self.assertEqual(again, text)
        self.assertEqual(self.run_model()[0], False)

    def test_options_for_a_pack_that_is_packed_already_are_said_to_have_no_effect(self):
        process = self.ork("run", self.pack(), "-p", "x", "-n", "1", "-t", "1", "--default-tier", "i8")
        self.assertIn("no effect", process.stderr)

    def test_a_bad_tier_is_refused_before_anything_is_written(self):
        self.ork("run", self.gguf, "-p", "x", "--default-tier", "nf5", code=2, env={"ORK_CACHE_DIR": str(self.cache)})
        self.assertEqual([name for name in self.names() if not name.endswith(".lock")], [])

    def test_places(self):
        xdg = self.folder / "xdg"
        self.ork("run", self.gguf, "-p", "x", "-n", "1", "-t", "1", env={"ORK_CACHE_DIR": None, "XDG_CACHE_HOME": str(xdg)})
        self.assertEqual(len(list((xdg / "ork" / "packs").iterdir())), 1)
        home = self.folder / "home"
        home.mkdir()
        self.ork("run", self.gguf, "-p", "x", "-n", "1", "-t", "1", env={"ORK_CACHE_DIR": None, "HOME": str(home)})
        self.assertEqual(len(list((home / ".cache" / "ork" / "packs").iterdir())), 1)

    def test_no_place(self):
        line = self.refused("run", self.gguf, "-p", "x", code=1, env={"ORK_CACHE_DIR": None, "HOME": None})
        self.assertIn("ORK_CACHE_DIR", line)
        line = self.refused("run", self.gguf, "-p", "x", code=1, env={"ORK_CACHE_DIR": "/dev/null/x"})
        self.assertIn("ORK_CACHE_DIR", line)
        line = self.refused("run", self.gguf, "-p", "x", code=1, env={"ORK_CACHE_DIR": "/proc/nothing"})
        self.assertIn("ORK_CACHE_DIR", line)

    def test_two_at_once(self):
        command = [*COMMAND, "run", str(self.gguf), "-p", "The", "-n", "2", "-t", "1", "--temp", "0", "-q"]
        env = environment(self.folder, ORK_CACHE_DIR=str(self.cache))
        processes = [subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) for _ in range(3)]
        results = [process.communicate(timeout=TIMEOUT) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0, 0], results)
        self.assertEqual(len({text for text, _ in results}), 1)
        self.assertEqual(len([name for name in self.names() if name.endswith(".orkpack")]), 1)

    def test_bench_and_perplexity_take_a_gguf_too(self):
        env = {"ORK_CACHE_DIR": str(self.cache)}
        self.ork("bench", self.gguf, "-p", "4", "-n", "1", "-r", "1", "-t", "1", env=env)
        self.assertEqual(len(self.names()), 1)
        self.assertEqual(self.run_model()[0], False)


if __name__ == "__main__":
    unittest.main()
