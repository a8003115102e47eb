"""Compares the architectures of language models with transformers: models of random weights, written
as GGUF in f32, or as folders of safetensors, of which `tilewright run` computes the logits of 64 tokens.

    python bench/gguf_architectures.py TILEWRIGHT [NAME ..]      needs torch, transformers, gguf
    python bench/gguf_architectures.py --folders TILEWRIGHT [NAME ..]     needs torch, transformers
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

TOKENS = 64
PAGE_PLACES = 256  # of the cache
VOCABULARY = 320
SIZES = dict(
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)

# The architecture in files, the configuration of transformers, and what it says besides.
MODELS = {
    "llama": ("llama", "LlamaConfig", dict(tie_word_embeddings=False)),
    "llama_tied": ("llama", "LlamaConfig", dict(tie_word_embeddings=True, rope_theta=5e5)),
    "mistral": ("llama", "MistralConfig", dict(sliding_window=24)),
    "granite": (
        "granite",
        "GraniteConfig",
        dict(
            embedding_multiplier=12.0,
            residual_multiplier=0.22,
            attention_multiplier=0.1,
            logits_scaling=8.0,
        ),
    ),
    "olmo": ("olmo", "OlmoConfig", dict()),
    "qwen2": ("qwen2", "Qwen2Config", dict()),
    "qwen3": ("qwen3", "Qwen3Config", dict(head_dim=32)),
    "gemma2": ("gemma2", "Gemma2Config", dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=24)),
    "phi3": ("phi3", "Phi3Config", dict(sliding_window=None)),
    "mixtral": ("llama", "MixtralConfig", dict(num_local_experts=5, num_experts_per_tok=2)),
}

# What only folders say.
FOLDERS = {
    "llama3": (
        "llama",
        "LlamaConfig",
        dict(
            rope_parameters=dict(
                rope_type="llama3",
                rope_theta=5e5,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=32,
            )
        ),
    ),
    "linear": ("llama", "LlamaConfig", dict(rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=4.0))),
    "biases": ("llama", "LlamaConfig", dict(attention_bias=True, mlp_bias=True)),
    "qwen2_window": ("qwen2", "Qwen2Config", dict(use_sliding_window=True, sliding_window=24, max_window_layers=0)),
    "phi3_partial": ("phi3", "Phi3Config", dict(sliding_window=24, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))),
    "mixtral_window": ("llama", "MixtralConfig", dict(num_local_experts=4, num_experts_per_tok=3, sliding_window=24)),
}

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.gate": "ffn_gate_inp",
}
GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def turned(weight, heads):
    """Rows of a head with the pairs that are rotated together side by side."""
    shape = weight.shape
    return weight.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def write(model, architecture, path):
    config = model.config
    heads, keys = config.num_attention_heads, config.num_key_value_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    from gguf import GGUFWriter

    writer = GGUFWriter(str(path), architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(keys)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    rope = getattr(config, "rope_parameters", None) or {}
    writer.add_rope_freq_base(rope.get("rope_theta", getattr(config, "rope_theta", 10000.0)))
    if architecture == "olmo":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        writer.add_sliding_window(config.sliding_window)
    if architecture == "granite":
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if hasattr(config, "num_local_experts"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    names = NAMES | (GEMMA if architecture == "gemma2" else {})
    for name, value in model.state_dict().items():
        value = value.float().numpy()
        whole, _, end = name.rpartition(".")
        if whole == "lm_head":
            if config.tie_word_embeddings:
                continue
            target = "output"
        elif whole == "model.embed_tokens":
            target = "token_embd"
        elif whole == "model.norm":
            target = "output_norm"
        else:
            _, _, layer, part = whole.split(".", 3)
            if part == "mlp.experts":
                # Experts of all products are one tensor, or two behind each other.
                own = ("ffn_down_exps",) if end == "down_proj" else ("ffn_gate_exps", "ffn_up_exps")
                for own, rows in zip(own, np.split(value, len(own), axis=1)):
                    writer.add_tensor(f"blk.{layer}.{own}.weight", np.ascontiguousarray(rows))
                continue
            target = f"blk.{layer}.{names[part]}"
            if architecture in ("llama", "granite", "olmo") and part.endswith(("q_proj", "k_proj")):
                value = turned(value, heads if part.endswith("q_proj") else keys)
        if architecture == "gemma2" and target.endswith("norm"):
            value = value + 1
        writer.add_tensor(f"{target}.{end}", np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(tool, model, folder, path, tokens):
    """What `tilewright run` computes of a file or folder; its complaint where it refuses."""
    config = model.config
    heads, keys = config.num_attention_heads, config.num_key_value_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    inputs = dict(tokens=tokens, position=np.array(0), rows=np.arange(TOKENS))
    for layer in range(config.num_hidden_layers):
        for part, page in ("keys", (head, PAGE_PLACES)), ("values", (PAGE_PLACES, head)):
            inputs[f"past.{layer}.{part}"] = np.zeros((1, keys, *page), np.float32)
    np.savez(folder / "in.npz", **inputs)
    command = [tool, "run", path, "--input", folder / "in.npz", "--output", folder / "out.npz"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr
    return np.load(folder / "out.npz")["logits"], ""


def main():
    arguments = sys.argv[1:]
    folders = arguments[0] == "--folders"
    models = MODELS | FOLDERS if folders else MODELS
    tool, wanted = arguments[folders], arguments[folders + 1 :] or list(models)
    folder = Path(tempfile.mkdtemp())
    failed = 0
    for name in wanted:
        architecture, kind, more = models[name]
        torch.manual_seed(1)
        config = getattr(transformers, kind)(**(SIZES | more), attn_implementation="eager")
        model = transformers.AutoModelForCausalLM.from_config(config).eval().float()
        with torch.no_grad():
            for key, value in model.named_parameters():
                if value.dim() == 1:
                    value.copy_(torch.randn_like(value) * 0.2 + ("norm" in key))
                else:
                    value.copy_(torch.randn_like(value) * 2.0 / value.shape[-1] ** 0.5)
        path = folder / (name if folders else f"{name}.gguf")
        if folders:
            # Several files with an index.
            model.save_pretrained(path, max_shard_size="150KB")
        else:
            write(model, architecture, path)
        tokens = np.random.default_rng(2).integers(0, VOCABULARY, TOKENS)
        with torch.no_grad():
            wanted_logits = model(torch.tensor(tokens[None])).logits[0].numpy()
        found, complaint = logits(tool, model, folder, path, tokens)
        if found is None:
            print(f"{name}: {complaint}")
            failed += 1
            continue
        error = np.abs(found - wanted_logits).max() / np.abs(wanted_logits).max()
        same = int((found.argmax(1) == wanted_logits.argmax(1)).sum())
        good = error < 1e-4
        failed += not good
        print(f"{name}: largest difference {error:.1e} of the largest logit, {same} of {TOKENS} likeliest tokens equal{'' if good else '  WRONG'}")
    sys.exit(failed > 0)


main()
