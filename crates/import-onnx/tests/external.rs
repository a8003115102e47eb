//! External data: read where it is safe, refused where it leads out of the model's folder.

use std::path::{Path, PathBuf};

use base::codes;
use import_onnx::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    ValueInfoProto,
};
use import_onnx::{DecodedModel, Facts, ImportOptions, Imported};
use prost::Message;

/// A folder of its own for each test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let id = std::process::id();
        let path = std::env::temp_dir().join(format!("tilewright-external-{name}-{id}"));
        std::fs::create_dir_all(path.join("inside")).expect("a writable temporary folder");
        Folder(path)
    }

    fn model(&self) -> PathBuf {
        self.0.join("inside/model.onnx")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A model whose output is a tensor of two floats in another file.
fn write_model(path: &Path, entries: &[(&str, &str)]) {
    let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    let tensor = TensorProto {
        name: "w".to_owned(),
        dims: vec![2],
        data_type: 1,
        data_location: 1,
        external_data: entries.iter().map(entry).collect(),
        ..Default::default()
    };
    let node = NodeProto {
        input: vec!["w".to_owned()],
        output: vec!["y".to_owned()],
        op_type: "Relu".to_owned(),
        ..Default::default()
    };
    let output = ValueInfoProto {
        r#type: Some(import_onnx::proto::TypeProto {
            value: Some(import_onnx::proto::TypeValue::Tensor(
                import_onnx::proto::TensorTypeProto { elem_type: 1, shape: None },
            )),
        }),
        ..ValueInfoProto::untyped("y")
    };
    let graph = GraphProto {
        node: vec![node],
        initializer: vec![tensor],
        output: vec![output],
        ..Default::default()
    };
    let model = ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 18 }],
        ..Default::default()
    };
    std::fs::write(path, model.encode_to_vec()).expect("a writable temporary folder");
}

fn import(folder: &Folder) -> base::Result<module::Module> {
    let options = ImportOptions::default();
    let model = DecodedModel::read(&folder.model(), &options.limits)?;
    model.import(&options, &Facts::default()).and_then(Imported::whole)
}

fn refusal(folder: &Folder, entries: &[(&str, &str)]) -> &'static str {
    write_model(&folder.model(), entries);
    let found = import(folder).expect_err("refused");
    found[0].code
}

#[test]
fn data_beside_the_model_is_read_in_place() {
    let folder = Folder::new("good");
    let values: Vec<u8> = [7.0f32, 1.5, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.0.join("inside/w.bin"), values).expect("a writable temporary folder");
    write_model(&folder.model(), &[("location", "w.bin"), ("offset", "4"), ("length", "8")]);
    let module = import(&folder).expect("imported");
    let constants: Vec<_> = module.constants.values().collect();
    assert_eq!(constants[0].tensor.to_f64_vec(), [1.5, -2.0]);
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    let folder = Folder::new("escape");
    let secret = folder.0.join("secret.bin");
    std::fs::write(&secret, [0; 8]).expect("a writable temporary folder");
    let absolute = secret.to_string_lossy().into_owned();
    for location in ["../secret.bin", absolute.as_str(), "/dev/zero", "x/../../secret.bin"] {
        assert_eq!(refusal(&folder, &[("location", location)]), codes::EXTERNAL_DATA_ESCAPES);
    }
    std::fs::create_dir_all(folder.0.join("inside/w")).expect("a writable temporary folder");
    assert_eq!(refusal(&folder, &[("location", "w")]), codes::EXTERNAL_DATA_ESCAPES);
}

#[cfg(unix)]
#[test]
fn links_and_pipes_are_refused() {
    let folder = Folder::new("links");
    let secret = folder.0.join("secret.bin");
    std::fs::write(&secret, [0; 8]).expect("a writable temporary folder");
    let link = folder.0.join("inside/link.bin");
    std::os::unix::fs::symlink(&secret, link).expect("a link");
    assert_eq!(refusal(&folder, &[("location", "link.bin")]), codes::EXTERNAL_DATA_ESCAPES);
    let made = std::process::Command::new("mkfifo").arg(folder.0.join("inside/pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(refusal(&folder, &[("location", "pipe")]), codes::EXTERNAL_DATA_ESCAPES);
    } else {
        println!("skipped: there is no mkfifo");
    }
}

#[test]
fn data_that_is_not_there_is_refused() {
    let folder = Folder::new("missing");
    std::fs::write(folder.0.join("inside/w.bin"), [0; 8]).expect("a writable temporary folder");
    let twice = [("location", "w.bin"), ("location", "other.bin")];
    assert_eq!(refusal(&folder, &twice), codes::DUPLICATE_NAME);
    for entries in [
        &[("location", "other.bin")][..],
        &[("location", "")],
        &[],
        &[("location", "w.bin"), ("offset", "1")],
        &[("location", "w.bin"), ("offset", "18446744073709551615")],
        &[("location", "w.bin"), ("offset", "-4")],
        &[("location", "w.bin"), ("length", "7")],
        &[("location", "w.bin"), ("length", "4611686018427387904")],
    ] {
        assert_eq!(refusal(&folder, entries), codes::EXTERNAL_DATA_MISSING, "{entries:?}");
    }
}
