"""Writes the model stories260K, as llama2.c keeps it, as a GGUF file in f32.

    python bench/stories_gguf.py FOLDER OUT      FOLDER holds stories260K.bin and tok512.bin

The file of the model: 7 little-endian i32 (width, inner width, layers, heads, heads of keys,
vocabulary, context), then f32: embedding, attention norms, Wq, Wk, Wv, Wo (all layers each), norms
of the gated products, W1, W2, W3, the last norm, two tables that are not used. That of the
tokenizer: i32, then for each token score f32, length i32 and bytes.
"""

import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFWriter


def main():
    folder, out = Path(sys.argv[1]), sys.argv[2]
    data = (folder / "stories260K.bin").read_bytes()
    width, inner, layers, heads, keys, vocabulary, context = struct.unpack("<7i", data[:28])
    weights, at = np.frombuffer(data[28:], "<f4"), 0

    def take(*shape):
        nonlocal at
        count = int(np.prod(shape))
        at += count
        return weights[at - count : at].reshape(shape)

    head = width // heads
    writer = GGUFWriter(out, "llama")
    writer.add_name("stories260K")
    writer.add_block_count(layers)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(keys)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(10000.0)
    writer.add_tensor("token_embd.weight", take(vocabulary, width))
    shapes = {
        "attn_norm": (width,),
        "attn_q": (width, width),
        "attn_k": (keys * head, width),
        "attn_v": (keys * head, width),
        "attn_output": (width, width),
        "ffn_norm": (width,),
        "ffn_gate": (inner, width),
        "ffn_down": (width, inner),
        "ffn_up": (inner, width),
    }
    for name, shape in shapes.items():
        for layer, value in enumerate(take(layers, *shape)):
            writer.add_tensor(f"blk.{layer}.{name}.weight", value)
    writer.add_tensor("output_norm.weight", take(width))

    raw, place = (folder / "tok512.bin").read_bytes(), 4
    tokens, scores, kinds = [], [], []
    for number in range(vocabulary):
        score, length = struct.unpack("<fi", raw[place : place + 8])
        piece = raw[place + 8 : place + 8 + length]
        place += 8 + length
        # 0 is what is not known, 1 and 2 begin and end a text, 3 to 258 are bytes.
        kind = 2 if number == 0 else 3 if number < 3 else 6 if number < 259 else 1
        name = [b"<unk>", b"<s>", b"</s>"][number] if number < 3 else piece
        tokens.append(name.replace(b" ", "\u2581".encode()) if kind == 1 else name)
        scores.append(score)
        kinds.append(kind)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
