//! A tiny model of random weights.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Bytes, and two tokens that begin and end turns.
const VOCABULARY: usize = 258;

/// The characters that a tokenizer writes bytes as: themselves where they can be seen.
fn letters() -> Vec<String> {
    let mut others = 256_u32..;
    let letter = |byte: u8| match byte {
        33..=126 | 161..=172 | 174..=255 => char::from(byte).to_string(),
        _ => char::from_u32(others.next().unwrap_or(0)).map_or_else(String::new, String::from),
    };
    (0..=255).map(letter).collect()
}

/// Writes a folder as Hugging Face does: one layer of random weights, a token a byte.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let configuration = json!({
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "eos_token_id": 257,
    });
    let mut vocabulary = serde_json::Map::new();
    for (byte, letter) in letters().into_iter().enumerate() {
        vocabulary.insert(letter, byte.into());
    }
    let own = |id: usize, text: &str| {
        json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": true});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [own(256, "<|im_start|>"), own(257, "<|im_end|>")],
        "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary, "merges": []},
    });
    let template = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
        {{ message.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";
    let shapes: [(&str, Vec<usize>); 11] = [
        ("model.embed_tokens", vec![VOCABULARY, 32]),
        ("model.norm", vec![32]),
        ("model.layers.0.input_layernorm", vec![32]),
        ("model.layers.0.post_attention_layernorm", vec![32]),
        ("model.layers.0.self_attn.q_proj", vec![32, 32]),
        ("model.layers.0.self_attn.k_proj", vec![16, 32]),
        ("model.layers.0.self_attn.v_proj", vec![16, 32]),
        ("model.layers.0.self_attn.o_proj", vec![32, 32]),
        ("model.layers.0.mlp.gate_proj", vec![48, 32]),
        ("model.layers.0.mlp.up_proj", vec![48, 32]),
        ("model.layers.0.mlp.down_proj", vec![32, 48]),
    ];
    let (mut head, mut data, mut state) = (serde_json::Map::new(), Vec::new(), 7_u64);
    for (name, shape) in shapes {
        let from = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
            let number = if shape.len() == 1 { 1.0 } else { number / 3.0 };
            data.extend(number.to_le_bytes());
        }
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [from, data.len()]});
        head.insert(format!("{name}.weight"), entry);
    }
    let head = Value::Object(head).to_string();
    let mut file = (head.len() as u64).to_le_bytes().to_vec();
    file.extend(head.bytes());
    file.extend(data);
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.join(name), bytes).expect("a file");
    write("model.safetensors", file);
    write("config.json", configuration.to_string().into_bytes());
    write("tokenizer.json", tokenizer.to_string().into_bytes());
    let chat = json!({"chat_template": template, "eos_token": "<|im_end|>"});
    write("tokenizer_config.json", chat.to_string().into_bytes());
    folder
}
