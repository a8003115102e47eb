"""Writes what the tests of crates/import-gguf read, to the folder OUT: `formats.gguf`, random blocks
of each format, and beside them the numbers that the package `gguf` makes of them (tensor NAME and
tensor NAME.values); and `tiny.gguf`, a model of one layer and random weights.

    python bench/gguf_formats.py OUT
"""

import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, quants

FORMATS = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K IQ4_NL MXFP4 F16 BF16".split()


def main():
    generator = np.random.default_rng(1)
    writer = GGUFWriter(f"{sys.argv[1]}/formats.gguf", "formats")
    for name in FORMATS:
        kind = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        blocks = 2 if elements > 32 else 8 if elements > 1 else 64
        data = generator.integers(0, 256, (2, blocks * size), dtype=np.uint8)
        writer.add_tensor(name, data, raw_dtype=kind)
        with np.errstate(all="ignore"):
            values = quants.dequantize(data, kind).astype(np.float32)
        writer.add_tensor(name + ".values", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    tiny(f"{sys.argv[1]}/tiny.gguf", generator)


def tiny(path, generator):
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    shapes = {
        "token_embd": (8, 32),
        "output_norm": (32,),
        "blk.0.attn_norm": (32,),
        "blk.0.attn_q": (32, 32),
        "blk.0.attn_k": (16, 32),
        "blk.0.attn_v": (16, 32),
        "blk.0.attn_output": (32, 32),
        "blk.0.ffn_norm": (32,),
        "blk.0.ffn_gate": (32, 32),
        "blk.0.ffn_up": (32, 32),
        "blk.0.ffn_down": (32, 32),
    }
    for name, shape in shapes.items():
        value = generator.standard_normal(shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(f"{name}.weight", value)
        else:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{name}.weight", quants.quantize(value, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
