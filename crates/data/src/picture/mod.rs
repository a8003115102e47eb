//! Pictures as inputs: decoded, brought to the size and the channels that an input has, scaled.

#[cfg(feature = "images")]
mod frame;
#[cfg(feature = "images")]
mod make;
#[cfg(feature = "images")]
mod resample;
#[cfg(feature = "images")]
mod size;

#[cfg(feature = "images")]
pub(crate) use make::{is_picture, tensor_of_pictures};

/// The order of a picture's axes, the batch in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Channels, rows, columns.
    Nchw,
    /// Rows, columns, channels.
    Nhwc,
}

/// How a picture is brought to the extents of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Each side to its extent.
    #[default]
    Stretch,
    /// As large as covers the extents, then the middle.
    Crop,
    /// As large as fits into the extents, in the middle of grey (114).
    Letterbox,
    /// The shorter side to so many pixels, then the middle.
    Side(usize),
    /// The shorter side to 256 of 224 parts of the extent, then the middle; 256 and 224 where the
    /// extents are free.
    ImageNet,
}

/// What is done to pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PictureOptions {
    /// The order of axes; what the declared shape tells if none is said.
    pub layout: Option<Layout>,
    /// How the size is reached.
    pub fit: Fit,
    /// What 255 becomes; 1 if nothing is said. Integer inputs get the bytes as they are.
    pub scale: Option<f64>,
    /// Subtracted from each channel after scaling; one number for all channels, or one each.
    pub mean: Vec<f64>,
    /// What each channel is divided by then.
    pub std: Vec<f64>,
    /// Blue first instead of red.
    pub bgr: bool,
}

impl PictureOptions {
    /// What classifiers trained on ImageNet expect: the middle of the picture, mean 0.485, 0.456,
    /// 0.406 and deviation 0.229, 0.224, 0.225 of red, green and blue.
    ///
    /// Source: the reference preprocessing of torchvision's classifiers.
    #[must_use]
    pub fn imagenet() -> PictureOptions {
        PictureOptions {
            fit: Fit::ImageNet,
            mean: vec![0.485, 0.456, 0.406],
            std: vec![0.229, 0.224, 0.225],
            ..PictureOptions::default()
        }
    }
}

/// Without pictures, none is told from other files.
#[cfg(not(feature = "images"))]
pub(crate) fn is_picture(_: &[u8]) -> bool {
    false
}

/// Without pictures, they are refused.
#[cfg(not(feature = "images"))]
pub(crate) fn tensor_of_pictures(
    pictures: &[crate::content::Encoded],
    _: &tilewright::Port,
    _: &PictureOptions,
    _: &mut Vec<String>,
) -> base::Result<tensor::Tensor> {
    let place = pictures.first().map(|picture| picture.place.clone()).unwrap_or_default();
    Err(base::Diagnostic::error(base::codes::BAD_IMAGE, "pictures are not read")
        .at(place)
        .because("this program is built without the feature `images` of `tilewright-data`")
        .remedy("build it with the feature, or give the picture as `.npy`")
        .into())
}
