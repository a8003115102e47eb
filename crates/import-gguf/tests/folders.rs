//! Folders as Hugging Face writes them: read whole, in parts, and refused where they contradict
//! themselves.

use std::collections::BTreeMap;

use base::Limits;
use bytes::Bytes;
use front::ImportOptions;
use import_gguf::DecoderModel;

const CONFIGURATION: &str = r#"{
    "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4, "intermediate_size": 6,
    "max_position_embeddings": 32, "num_attention_heads": 2, "num_hidden_layers": 1,
    "num_key_value_heads": 1, "num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": null,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "sliding_window": null,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}
}"#;

const TENSORS: [(&str, &[usize]); 16] = [
    ("model.embed_tokens.weight", &[5, 4]),
    ("model.norm.weight", &[4]),
    ("lm_head.weight", &[5, 4]),
    ("model.layers.0.input_layernorm.weight", &[4]),
    ("model.layers.0.post_attention_layernorm.weight", &[4]),
    ("model.layers.0.self_attn.q_proj.weight", &[4, 4]),
    ("model.layers.0.self_attn.k_proj.weight", &[2, 4]),
    ("model.layers.0.self_attn.v_proj.weight", &[2, 4]),
    ("model.layers.0.self_attn.o_proj.weight", &[4, 4]),
    ("model.layers.0.block_sparse_moe.gate.weight", &[2, 4]),
    ("model.layers.0.block_sparse_moe.experts.0.w1.weight", &[6, 4]),
    ("model.layers.0.block_sparse_moe.experts.0.w2.weight", &[4, 6]),
    ("model.layers.0.block_sparse_moe.experts.0.w3.weight", &[6, 4]),
    ("model.layers.0.block_sparse_moe.experts.1.w1.weight", &[6, 4]),
    ("model.layers.0.block_sparse_moe.experts.1.w2.weight", &[4, 6]),
    ("model.layers.0.block_sparse_moe.experts.1.w3.weight", &[6, 4]),
];

/// Names and extents of tensors.
type Tensors<'t> = [(&'t str, &'t [usize])];

type Folder = BTreeMap<String, Vec<u8>>;

/// A file of zeros in bf16.
fn safetensors(tensors: &Tensors<'_>) -> Vec<u8> {
    let (mut entries, mut at) = (Vec::new(), 0);
    for (name, shape) in tensors {
        let end = at + 2 * shape.iter().product::<usize>();
        entries.push(format!(
            r#""{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{at},{end}]}}"#
        ));
        at = end;
    }
    let head = format!("{{\"__metadata__\":{{\"format\":\"pt\"}},{}}}", entries.join(","));
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend(head.bytes());
    bytes.resize(bytes.len() + at, 0);
    bytes
}

fn folder(configuration: &str, files: &[(&str, &Tensors<'_>)]) -> Folder {
    let mut folder = Folder::from([("config.json".to_owned(), configuration.into())]);
    folder.extend(files.iter().map(|(name, own)| ((*name).to_owned(), safetensors(own))));
    folder
}

fn whole() -> Folder {
    folder(CONFIGURATION, &[("model.safetensors", &TENSORS)])
}

fn import(folder: &Folder) -> Result<DecoderModel, String> {
    let files = |name: &str| Ok(folder.get(name).map(|bytes| Bytes::copy_from_slice(bytes)));
    let model = DecoderModel::read_files(&files, &Limits::default());
    let model = model.map_err(|found| found.to_string())?;
    let imported = model.import(&ImportOptions::default());
    imported.map(|_| model).map_err(|found| found.to_string())
}

fn check(folder: &Folder, reason: &str) {
    let refused = import(folder).map(|_| ()).expect_err(reason);
    assert!(refused.contains(reason), "{refused}");
}

fn with_configuration(from: &str, to: &str) -> Folder {
    assert!(CONFIGURATION.contains(from), "{from}");
    folder(&CONFIGURATION.replace(from, to), &[("model.safetensors", &TENSORS)])
}

#[test]
fn a_folder_of_one_file_or_several_is_read() {
    let model = import(&whole()).expect("a model");
    assert_eq!((model.vocabulary(), model.context(), model.architecture()), (5, 32, "llama"));
    let (first, second) = TENSORS.split_at(7);
    let mut parts = folder(CONFIGURATION, &[("a.safetensors", first), ("b.safetensors", second)]);
    let map: Vec<String> = [("a", first), ("b", second)]
        .iter()
        .flat_map(|(file, own)| {
            own.iter().map(move |(name, _)| format!(r#""{name}":"{file}.safetensors""#))
        })
        .collect();
    let index = format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","));
    parts.insert("model.safetensors.index.json".to_owned(), index.clone().into());
    assert_eq!(import(&parts).expect("a model").parameters(), model.parameters());
    parts.insert(
        "model.safetensors.index.json".to_owned(),
        index.replace("b.safetensors", "../b.safetensors").into(),
    );
    check(&parts, "which is not in the folder");
    parts.insert("model.safetensors.index.json".to_owned(), index.into());
    parts.remove("b.safetensors");
    check(&parts, "file \"b.safetensors\"");
}

#[test]
fn what_is_not_written_is_refused_by_its_name() {
    check(&Folder::new(), "no `config.json`");
    check(&with_configuration("\"mixtral\"", "\"bert\""), "the architecture \"bert\"");
    check(&with_configuration("\"silu\"", "\"relu\""), "\"relu\"");
    check(&with_configuration("\"default\"", "\"yarn\""), "angles of \"yarn\"");
    check(
        &with_configuration("\"head_dim\": null", "\"quantization_config\": {}"),
        "quantization_config",
    );
    check(
        &with_configuration("\"num_experts_per_tok\": 1", "\"num_experts_per_tok\": 3"),
        "3 of 2",
    );
    check(&with_configuration("\"hidden_size\": 4", "\"hidden_size\": \"4\""), "hidden_size");
    check(&with_configuration("\"hidden_size\": 4", "\"hidden_size\": 8"), "the embedding is");
    check(
        &with_configuration("\"num_local_experts\": 2", "\"num_local_experts\": 3"),
        "its shape is",
    );
    check(&folder(CONFIGURATION, &[("model.safetensors", &TENSORS[3..])]), "lm_head.weight");
    let some = folder(CONFIGURATION, &[("model.safetensors", &TENSORS[1..])]);
    check(&some, "token_embd.weight");
    let mut other = whole();
    let bytes = other.get_mut("model.safetensors").expect("a file");
    let text = String::from_utf8_lossy(bytes).replacen("BF16", "F8E4", 1);
    *bytes = text.into_bytes();
    check(&other, "a tensor of the type F8E4");
}

#[test]
fn what_is_damaged_is_read_or_refused() {
    let own = whole();
    let bytes = &own["model.safetensors"];
    for length in (0..bytes.len()).step_by(11) {
        let mut cut = own.clone();
        cut.insert("model.safetensors".to_owned(), bytes[..length].to_vec());
        assert!(import(&cut).is_err(), "the first {length} bytes");
    }
    let mut state = 1_u64;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % most
    };
    let mut read = 0;
    let mut folder = own.clone();
    for _ in 0..executions() {
        let name = if draw(3) == 0 { "config.json" } else { "model.safetensors" };
        let mut bytes = own[name].clone();
        for _ in 0..=draw(2) {
            let at = draw(bytes.len().min(2200));
            match draw(4) {
                0 => bytes[at] = draw(256) as u8,
                1 => bytes[at] = b'0' + draw(10) as u8,
                2 => bytes[at] ^= 1 << draw(8),
                _ => _ = bytes.remove(at),
            }
        }
        folder.insert(name.to_owned(), bytes);
        read += usize::from(import(&folder).is_ok());
        folder.insert(name.to_owned(), own[name].clone());
    }
    assert!(read < executions(), "{read} are models");
}

/// How many damaged folders are read: `TILEWRIGHT_EXECUTIONS`, or few.
fn executions() -> usize {
    let given = std::env::var("TILEWRIGHT_EXECUTIONS").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(4_000)
}

#[test]
fn what_is_damaged_in_a_folder_is_read_or_refused() {
    let mut state = 1_u64;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % most
    };
    let whole = whole();
    let head = whole["model.safetensors"].len() - 2 * TENSORS.len();
    let given = std::env::var("TILEWRIGHT_EXECUTIONS").ok();
    let executions = given.and_then(|given| given.parse().ok()).unwrap_or(10_000);
    let mut read = 0;
    for _ in 0..executions {
        let mut damaged = whole.clone();
        let name = if draw(4) == 0 { "config.json" } else { "model.safetensors" };
        let bytes = damaged.get_mut(name).expect("a file");
        // One change in eight is to the length of the head, the others to what is said.
        for _ in 0..=draw(2) {
            let at = if draw(8) == 0 { draw(8) } else { draw(bytes.len().min(head)) };
            bytes[at] = match draw(4) {
                0 => draw(256) as u8,
                1 => bytes[at] ^ 1 << draw(8),
                2 => b'0' + draw(10) as u8,
                _ => bytes[draw(bytes.len())],
            };
        }
        if draw(50) == 0 {
            bytes.truncate(draw(bytes.len()));
        }
        read += usize::from(import(&damaged).is_ok());
    }
    let least_and_most = executions / 200..executions * 19 / 20;
    assert!(least_and_most.contains(&read), "{read} of {executions} are models");
}
