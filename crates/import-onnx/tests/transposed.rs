//! Random transposed convolutions in one dimension against their definition: element `i` of the
//! input adds to results `stride * i + dilation * k - begin`.

use import_onnx::{ImportOptions, import_bytes};
use proptest::prelude::*;
use prost::Message;
use testkit::onnx_text;

#[derive(Clone, Debug)]
struct Case {
    extent: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    groups: usize,
    begin: usize,
    end: usize,
    behind: usize,
}

const CHANNELS: usize = 2;
const OUTPUTS: usize = 3;

impl Case {
    fn full(&self) -> usize {
        (self.extent - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
    }

    fn output(&self) -> usize {
        (self.full() + self.behind).saturating_sub(self.begin + self.end)
    }

    fn weight(&self, channel: usize, output: usize, k: usize) -> f64 {
        ((channel * OUTPUTS + output) * self.kernel + k) as f64 % 7.0 - 3.0
    }

    fn input(&self, channel: usize, i: usize) -> f64 {
        (channel * self.extent + i) as f64 % 5.0 - 2.0
    }

    fn expected(&self) -> Vec<f64> {
        let mut result = vec![0.0; self.groups * OUTPUTS * self.output()];
        for channel in 0..self.groups * CHANNELS {
            for output in 0..OUTPUTS {
                let row = (channel / CHANNELS * OUTPUTS + output) * self.output();
                for i in 0..self.extent {
                    for k in 0..self.kernel {
                        let place = (self.stride * i + self.dilation * k).checked_sub(self.begin);
                        if let Some(place) = place.filter(|&place| place < self.output()) {
                            result[row + place] +=
                                self.input(channel, i) * self.weight(channel, output, k);
                        }
                    }
                }
            }
        }
        result
    }

    fn model(&self) -> String {
        let Case { extent, kernel, stride, dilation, groups, begin, end, behind } = self;
        let channels = groups * CHANNELS;
        let all = (0..channels).flat_map(|c| (0..OUTPUTS).map(move |o| (c, o)));
        let weights = all.flat_map(|(c, o)| (0..*kernel).map(move |k| self.weight(c, o, k)));
        let weights: Vec<String> = weights.map(|weight| format!("{weight:?}")).collect();
        format!(
            "input x: f32[1, {channels}, {extent}]\n\
             constant w: f32[{channels}, {OUTPUTS}, {kernel}] {{{}}}\n\
             y = ConvTranspose(x, w) {{strides = [{stride}], dilations = [{dilation}], \
             group = {groups}, pads = [{begin}, {end}], output_padding = [{behind}]}}\n\
             output y: f32[1, {}, {}]\n",
            weights.join(", "),
            groups * OUTPUTS,
            self.output()
        )
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (1usize..7, 1usize..6, 1usize..5, 1usize..7, 1usize..3);
    (sizes, 0usize..5, 0usize..5, 0usize..3)
        .prop_map(|((extent, kernel, stride, dilation, groups), begin, end, behind)| Case {
            extent,
            kernel,
            stride,
            dilation,
            groups,
            begin,
            end,
            behind,
        })
        .prop_filter("an empty result", |case| case.output() > 0)
        .prop_filter("too much behind", |case| case.behind < case.stride.max(case.dilation))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn transposed_convolutions_are_right(case in cases()) {
        let text = case.model();
        let mut parser = base::text::Parser::new(&text);
        let model = onnx_text::parse_model(&mut parser).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let options = ImportOptions::default();
        let module = import_bytes(model.encode_to_vec().into(), &options)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let function = module.functions.values().next().expect("a function");
        let constant = |id| module.constants[id].tensor.clone();
        let input = (0..case.groups * CHANNELS)
            .flat_map(|c| (0..case.extent).map(move |i| (c, i)))
            .map(|(c, i)| case.input(c, i) as f32);
        let shape = [1, case.groups * CHANNELS, case.extent];
        let input = tensor::Tensor::from_slice(&shape, &input.collect::<Vec<f32>>());
        let precision = eval::EvaluationPrecision::Declared;
        let results = eval::graph::evaluate(function, &constant, &[input], precision)
            .unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let found = results[0].to_f64_vec();
        prop_assert_eq!(found, case.expected(), "{}", text);
    }
}
