//! Imports model files and says how long it took and how large the function is; `-p` prints it.
//!
//!     cargo run -p tilewright-import-onnx --example import -- MODEL... [-p]

use std::path::Path;
use std::time::Instant;

use import_onnx::{DecodedModel, Facts, ImportOptions, Imported};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let prints = arguments.iter().any(|argument| argument == "-p");
    let mut failures = 0;
    for path in arguments.iter().filter(|argument| *argument != "-p") {
        let start = Instant::now();
        let options = ImportOptions::default();
        let imported = DecodedModel::read(Path::new(path), &options.limits)
            .and_then(|model| model.import(&options, &Facts::default()));
        let module = match imported.and_then(Imported::whole) {
            Ok(module) => module,
            Err(found) => {
                println!("{path}: refused\n{found}");
                failures += 1;
                continue;
            }
        };
        let time = start.elapsed().as_secs_f64() * 1e3;
        for (_, function) in module.functions.iter() {
            let (nodes, constants) = (function.nodes.len(), module.constants.len());
            println!("{path}: {time:.1} ms, {nodes} nodes, {constants} constants");
            if let Err(found) = graph::verify(function) {
                println!("does not verify: {found}");
                failures += 1;
            }
            if prints {
                println!("{function}");
            }
        }
    }
    std::process::exit(i32::from(failures > 0));
}
