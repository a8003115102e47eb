//! Names what a picture shows.
//!
//!     cargo run --profile quick -p examples --features pictures --example classify -- \
//!         models/digits/digits.onnx models/digits/three.png
//!
//! Arguments: a classifier, a picture, and a file of labels if there is one.

use data::{GivenInput, Labels, PictureOptions, Reading};
use tilewright::{Diagnostics, Limits, Options, PortExtent};

fn main() -> Result<(), Diagnostics> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ([model, picture] | [model, picture, _]) = arguments.as_slice() else {
        eprintln!("classify MODEL PICTURE [LABELS]");
        std::process::exit(2);
    };
    let labels = arguments.get(2).map(|path| Labels::read(path, &Limits::default())).transpose()?;

    let ports = tilewright::model_info(model, &Limits::default())?.inputs;
    // Classifiers of photographs expect what ImageNet's pictures went through; others, pixels from
    // 0 to 1.
    let coloured = ports.iter().any(|port| port.shape.contains(&PortExtent::Fixed(3)));
    let preparation = if coloured { PictureOptions::imagenet() } else { PictureOptions::default() };
    let reading = Reading { picture: preparation, ..Reading::default() };
    let inputs = data::read(&[GivenInput::parse(picture, &ports)], &ports, &reading)?;
    inputs.notes.iter().for_each(|note| eprintln!("{note}"));

    let mut options = Options::default();
    options.bind_shapes(&inputs.values);
    let executable = tilewright::compile(model, &options)?;
    let outputs = executable.run_named(inputs.values)?;
    let scores = outputs.tensor(&executable.outputs()[0].name)?;
    for row in data::top(scores, 5, true).unwrap_or_default() {
        for best in row {
            let label = labels.as_ref().and_then(|labels| labels.get(best.index));
            let label = label.map_or_else(|| format!("class {}", best.index), str::to_owned);
            println!("{:6.2} %  {label}", 100.0 * best.score);
        }
    }
    Ok(())
}
