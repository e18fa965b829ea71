#!/usr/bin/env python3
"""Writes the small GGUF files in tests/format/samples with the PyPI package `gguf` (0.19.0), for test_gguf.c.

Usage: make_gguf_samples.py   (pip install gguf numpy)
"""
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent / "samples"


def raw(count, start):
    """Bytes by a rule that the C test repeats: byte i = 7 i + start mod 256."""
    return ((np.arange(count) * 7 + start) % 256).astype(np.uint8)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_metadata(writer):
    writer.add_uint8("sample.u8", 255)
    writer.add_int8("sample.i8", -128)
    writer.add_uint16("sample.u16", 65535)
    writer.add_int16("sample.i16", -32768)
    writer.add_uint32("sample.u32", 4294967295)
    writer.add_int32("sample.i32", -2147483648)
    writer.add_uint64("sample.u64", 2**64 - 1)
    writer.add_int64("sample.i64", -(2**63))
    writer.add_float32("sample.f32", 1.5)
    writer.add_float64("sample.f64", 0.1)
    writer.add_bool("sample.bool", True)
    writer.add_string("sample.string", "Grüße, 世界")
    writer.add_array("sample.integers", [1, -2, 3])
    writer.add_array("sample.floats", [0.5, -0.25])
    writer.add_array("sample.strings", ["a", "bc", "déf"])
    writer.add_token_list(["<s>", "a", "b"])
    writer.add_token_scores([0.0, -1.0, -2.0])
    writer.add_token_types([3, 1, 1])


def one_file():
    writer = gguf.GGUFWriter(HERE / "python.gguf", "sample")
    writer.add_custom_alignment(64)
    add_metadata(writer)
    writer.add_tensor("f32", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.add_tensor("f16", np.arange(5, dtype=np.float16))
    writer.add_tensor("i32", np.arange(-3, 3, dtype=np.int32))
    # Shapes of quantized tensors are given in bytes; 18 bytes of Q4_0 are 32 elements.
    writer.add_tensor("q4_0", raw(36 * 3, 1).reshape(3, 36), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("q6_k", raw(210 * 2, 2).reshape(2, 210), raw_dtype=gguf.GGMLQuantizationType.Q6_K)
    writer.add_tensor("mxfp4", raw(17 * 4, 3).reshape(2, 2, 17), raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    write(writer)


def split_files():
    writer = gguf.GGUFWriter(HERE / "python-split.gguf", "sample", split_max_tensors=2)
    add_metadata(writer)
    for i in range(5):
        writer.add_tensor(f"blk.{i}.weight", np.arange(8, dtype=np.float32) + i)
    write(writer)


def big_endian():
    writer = gguf.GGUFWriter(HERE / "python-big-endian.gguf", "sample", endianess=gguf.GGUFEndian.BIG)
    writer.add_tensor("f32", np.arange(4, dtype=np.float32))
    write(writer)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    one_file()
    split_files()
    big_endian()
