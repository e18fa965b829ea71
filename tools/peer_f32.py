#!/usr/bin/env python3
"""Writes a GGUF file with every tensor dequantized to F32, so that the peer computes in float on the same weights.

Owns: the rewriting of one file. Must not know: ork. The dequantization is the `gguf` package's, so a comparison on
the result also checks our own block decoders.
"""

import argparse
import os
import sys
from pathlib import Path

import gguf
import numpy as np


def copy_metadata(reader, writer):
    skipped = {"general.architecture", "general.file_type", "general.quantization_version"}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in skipped:
            continue
        value_type = field.types[0]
        element_type = field.types[-1] if value_type == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), value_type, element_type)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def as_f32(tensor):
    if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
        return np.asarray(tensor.data)
    integers = (gguf.GGMLQuantizationType.I8, gguf.GGMLQuantizationType.I16, gguf.GGMLQuantizationType.I32,
                gguf.GGMLQuantizationType.I64)
    if tensor.tensor_type in integers:
        return np.asarray(tensor.data)
    return gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)


def convert(source, target):
    reader = gguf.GGUFReader(source)
    partial = Path(f"{target}.partial")
    try:
        writer = gguf.GGUFWriter(partial, reader.fields["general.architecture"].contents())
        copy_metadata(reader, writer)
        for tensor in reader.tensors:
            writer.add_tensor(tensor.name, as_f32(tensor))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return len(reader.tensors)


def main():
    parser = argparse.ArgumentParser(description="Dequantize a GGUF file to F32.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    count = convert(options.source, options.target)
    print(f"{options.target}: {count} tensors, {options.target.stat().st_size} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
