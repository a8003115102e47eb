//! The options by which inputs are read from files, and how they become values.

use std::collections::BTreeMap;
use std::path::Path;

use base::Result;
use clap::{Args, ValueEnum};
use data::{Fit, GivenInput, Header, InputSource, Layout, PictureOptions, Reading};
use tilewright::Value;

use crate::arguments::ModelArguments;
use crate::help::{INPUTS, PICTURES};
use crate::messages::note;

/// Files for inputs, and how they are read.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = INPUTS)]
pub(crate) struct FileArguments {
    /// Reads an input from a file
    ///
    /// The formats are .npy, .npz (.npz:KEY for one array), .pb, pictures, .csv, .tsv, .txt and
    /// .json; a folder is one of a case or of pictures, `-` standard input. The name may be left
    /// out where there is one input, or the file has names.
    #[arg(long = "input", value_name = "[NAME=]FILE", allow_hyphen_values = true)]
    inputs: Vec<String>,

    /// Gives an input as a string
    #[arg(long = "text", value_name = "[NAME=]STRING", allow_hyphen_values = true)]
    texts: Vec<String>,

    /// Whether the first row of a table holds names
    #[arg(long, value_name = "WHETHER", default_value = "auto")]
    header: HeaderArgument,

    /// What pictures are prepared for: sets the options below, which may change it
    #[arg(long, value_name = "NAME", help_heading = PICTURES)]
    preset: Option<Preset>,

    /// Resizes the shorter side of a picture, then takes the middle
    #[arg(long, value_name = "SIDE", conflicts_with = "fit", help_heading = PICTURES,
        value_parser = clap::value_parser!(u16).range(1..))]
    resize: Option<u16>,

    /// How a picture fits the extents of its input [default: stretch]
    #[arg(long, value_name = "HOW", help_heading = PICTURES)]
    fit: Option<FitArgument>,

    /// The order of a picture's axes [default: what the input's shape tells]
    #[arg(long, value_name = "LAYOUT", help_heading = PICTURES)]
    layout: Option<LayoutArgument>,

    /// Subtracts the mean of each channel from pictures that are scaled to 0..1
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_hyphen_values = true,
        value_parser = finite, help_heading = PICTURES)]
    mean: Vec<f64>,

    /// Divides by the deviation of each channel then
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', value_parser = deviation,
        help_heading = PICTURES)]
    std: Vec<f64>,

    /// What the largest byte of a picture becomes, 255 for the bytes as they are [default: 1]
    #[arg(long, value_name = "N", value_parser = deviation, help_heading = PICTURES)]
    scale: Option<f64>,

    /// Puts blue first instead of red
    #[arg(long, help_heading = PICTURES)]
    bgr: bool,
}

/// Ways to prepare pictures by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Preset {
    /// Classifiers trained on ImageNet: shorter side 256, middle 224, their mean and deviation
    #[value(name = "imagenet")]
    ImageNet,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderArgument {
    /// Where it names an input, or is no number where numbers are wanted
    Auto,
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FitArgument {
    /// Each side to its extent
    Stretch,
    /// As large as covers the extents, then the middle
    Crop,
    /// As large as fits in, in the middle of grey
    Letterbox,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutArgument {
    /// Channels in front
    Nchw,
    /// Channels last
    Nhwc,
}

fn finite(text: &str) -> std::result::Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    number.filter(|it| it.is_finite()).ok_or_else(|| format!("`{text}` is not a number"))
}

fn deviation(text: &str) -> std::result::Result<f64, String> {
    finite(text).and_then(|number| match number > 0.0 {
        true => Ok(number),
        false => Err(format!("`{text}` is not above 0")),
    })
}

impl FileArguments {
    /// Whether anything is given.
    pub(crate) fn are_given(&self) -> bool {
        !self.inputs.is_empty() || !self.texts.is_empty()
    }

    /// Reads what is given for inputs of a model, of what it declares; says on standard error what
    /// was done to make it so.
    ///
    /// # Errors
    /// Those of [`data::read`], and a file that is no model.
    pub(crate) fn read(&self, model: &ModelArguments) -> Result<BTreeMap<String, Value>> {
        self.read_with(model, None)
    }

    /// As [`Self::read`], and one more file.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn read_with(
        &self,
        model: &ModelArguments,
        more: Option<&Path>,
    ) -> Result<BTreeMap<String, Value>> {
        if !self.are_given() && more.is_none() {
            return Ok(BTreeMap::new());
        }
        let ports = model.declared_inputs()?;
        let files = self.inputs.iter().map(|text| GivenInput::parse(text, &ports));
        let texts = self.texts.iter().map(|text| GivenInput::parse_text(text, &ports));
        let more = more.map(|path| GivenInput {
            name: None,
            source: InputSource::File { path: path.to_owned(), key: None },
        });
        let given: Vec<GivenInput> = files.chain(texts).chain(more).collect();
        let header = match self.header {
            HeaderArgument::Auto => Header::Auto,
            HeaderArgument::Yes => Header::Yes,
            HeaderArgument::No => Header::No,
        };
        let reading = Reading { picture: self.picture(), header, limits: model.limits() };
        let inputs = data::read(&given, &ports, &reading)?;
        inputs.notes.iter().for_each(|text| note(text));
        Ok(inputs.values)
    }

    fn picture(&self) -> PictureOptions {
        let mut options = match self.preset {
            Some(Preset::ImageNet) => PictureOptions::imagenet(),
            None => PictureOptions::default(),
        };
        if let Some(fit) = self.fit {
            options.fit = match fit {
                FitArgument::Stretch => Fit::Stretch,
                FitArgument::Crop => Fit::Crop,
                FitArgument::Letterbox => Fit::Letterbox,
            };
        }
        if let Some(side) = self.resize {
            options.fit = Fit::Side(side.into());
        }
        if !self.mean.is_empty() {
            options.mean.clone_from(&self.mean);
        }
        if !self.std.is_empty() {
            options.std.clone_from(&self.std);
        }
        options.layout = self.layout.map(|layout| match layout {
            LayoutArgument::Nchw => Layout::Nchw,
            LayoutArgument::Nhwc => Layout::Nhwc,
        });
        PictureOptions { scale: self.scale, bgr: self.bgr, ..options }
    }
}
