//! The files of tests of the binary, as lines say them: `tests/commands.rs` has the list.

use std::path::Path;

use base::text::Parser;
use import_onnx::proto::{ModelProto, StringStringEntryProto, TypeValue};
use prost::Message;
use testkit::onnx_text;

/// The lines of a script, each with the indented lines behind it.
pub(crate) fn steps(text: &str) -> Vec<(&str, String)> {
    let mut steps: Vec<(&str, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match (line.strip_prefix("  "), steps.last_mut()) {
            (Some(inner), Some((_, block))) => {
                block.push_str(inner);
                block.push('\n');
            }
            _ => steps.push((line, String::new())),
        }
    }
    steps
}

/// Makes or changes a file.
///
/// # Errors
/// What is wrong with the line, which is named.
pub(crate) fn prepare(folder: &Path, line: &str, block: &str) -> Result<(), String> {
    make(folder, line, block).map_err(|error| format!("{line}: {error}"))
}

fn make(folder: &Path, line: &str, block: &str) -> Result<(), String> {
    let (verb, rest) = line.split_once(' ').ok_or("expected a verb and a file")?;
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let path = folder.join(name);
    let write = |bytes: &[u8]| std::fs::write(&path, bytes).map_err(|error| error.to_string());
    let read = || std::fs::read(&path).map_err(|error| error.to_string());
    match verb {
        "model" => {
            let mut parser = Parser::new(block);
            let model = onnx_text::parse_model(&mut parser)
                .and_then(|model| parser.expect_end().map(|()| model))
                .map_err(|error| error.to_string())?;
            write(&model.encode_to_vec())
        }
        "external" => {
            let mut model = ModelProto::decode(&read()?[..]).map_err(|error| error.to_string())?;
            let (constant, location) = rest.split_once(' ').ok_or("expected a constant, a path")?;
            let constants = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
            for tensor in constants.filter(|tensor| tensor.name == constant) {
                let (key, value) = ("location".to_owned(), location.to_owned());
                tensor.raw_data = None;
                tensor.data_location = 1;
                tensor.external_data = vec![StringStringEntryProto { key, value }];
            }
            write(&model.encode_to_vec())
        }
        "retype" => {
            let mut model = ModelProto::decode(&read()?[..]).map_err(|error| error.to_string())?;
            let (input, number) = rest.split_once(' ').ok_or("expected an input, a number")?;
            let inputs = model.graph.iter_mut().flat_map(|graph| &mut graph.input);
            for value in inputs.filter(|value| value.name == input) {
                let ty = value.r#type.as_mut().and_then(|ty| ty.value.as_mut());
                if let Some(TypeValue::Tensor(tensor)) = ty {
                    tensor.elem_type = number.parse().map_err(|_| "expected a number")?;
                }
            }
            write(&model.encode_to_vec())
        }
        "text" => write(block.as_bytes()),
        "folder" => std::fs::create_dir_all(&path).map_err(|error| error.to_string()),
        "array" => {
            let tensor =
                onnx_text::tensor(&mut Parser::new(rest)).map_err(|error| error.to_string())?;
            tensor::npy::write(&path, &tensor).map_err(|error| error.to_string())
        }
        "tensor" => {
            let (name, rest) = rest.split_once(' ').ok_or("expected a name, a tensor")?;
            let tensor =
                onnx_text::tensor(&mut Parser::new(rest)).map_err(|error| error.to_string())?;
            let mut proto = onnx_text::tensor_proto(&tensor);
            proto.name = name.to_owned();
            write(&proto.encode_to_vec())
        }
        "maps" => {
            let (name, rest) = rest.split_once(' ').ok_or("expected a name, keys, numbers")?;
            let mut parser = Parser::new(rest);
            let mut next = || onnx_text::tensor(&mut parser).map_err(|error| error.to_string());
            let (keys, numbers) = (tensor::Keys::of(&next()?), next()?);
            let value = match numbers.shape().len() {
                1 => tensor::Value::Map(keys, numbers),
                _ => tensor::Value::Maps(keys, numbers),
            };
            write(&import_onnx::encode_value(name, &value))
        }
        "picture" => {
            let (width, height) = rest.split_once(' ').ok_or("expected a width, a height")?;
            let extent = |text: &str| text.parse::<u32>().map_err(|_| "expected extents");
            let (width, height) = (extent(width)?, extent(height)?);
            let pixel = |x: u32, y: u32| [20 * x as u8, 20 * y as u8, (20 * (x + y)) as u8];
            image::RgbImage::from_fn(width, height, |x, y| image::Rgb(pixel(x, y)))
                .save(&path)
                .map_err(|error| error.to_string())
        }
        "cut" => {
            let length: usize = rest.parse().map_err(|_| "expected a number of bytes")?;
            write(&read()?[..length])
        }
        _ => Err(format!("no verb `{verb}`")),
    }
}
