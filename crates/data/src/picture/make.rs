//! From encoded pictures to the tensor of an input.

use base::{Diagnostic, Result, codes};
use host_ops::{PixelFormat, Pixels, decode_upright};
use tensor::tensor::byte_size;
use tensor::{Class, DType, Tensor};
use tilewright::{Port, PortExtent};

use super::frame::Frame;
use super::resample::resize;
use super::size::Plan;
use super::{Fit, Layout, PictureOptions};
use crate::content::Encoded;
use crate::sentences::unfit;

/// Grey around a picture in a letterbox, as detectors are trained with.
const GREY: u8 = 114;
/// The most pixels of a picture on its way.
const MOST_PIXELS: u64 = 1 << 26;
/// The most bytes of all pictures for an input.
const MOST_BYTES: usize = 1 << 32;

/// Pictures of an input of which each is noted.
const MOST_NOTES: usize = 4;

/// Whether bytes begin as those of a picture do.
pub(crate) fn is_picture(bytes: &[u8]) -> bool {
    host_ops::is_image(bytes)
}

/// The tensor of some pictures, one behind another; what was done is noted.
pub(crate) fn tensor_of_pictures(
    pictures: &[Encoded],
    port: &Port,
    options: &PictureOptions,
    notes: &mut Vec<String>,
) -> Result<Tensor> {
    let Some(first) = pictures.first() else { return Err(port.missing().into()) };
    let frame = Frame::of(port, options, &first.place)?;
    let levels = Levels::of(&frame, options, port, &first.place)?;
    if pictures.len() > 1 && !frame.has_batch {
        let message = format!("input `{}` takes one picture", port.name);
        let reason = format!("the model declares {port}, and {} are given", pictures.len());
        let found = unfit(codes::WRONG_SHAPE, message, &pictures[1].place);
        return Err(found.because(reason).remedy("give one").into());
    }
    let (mut all, mut size) = (Vec::new(), None);
    for picture in pictures {
        let (pixels, note) = fitted(picture, &frame, options)?;
        let own = (pixels.height, pixels.width);
        if *size.get_or_insert(own) != own {
            return Err(other_size(port, &frame, picture, own, size).into());
        }
        check_bytes(&frame, pictures.len(), own, picture)?;
        all.push(pixels);
        if all.len() <= MOST_NOTES {
            notes.push(format!("{}: {note}{}", port.name, levels.said(options)));
        }
    }
    if all.len() > MOST_NOTES {
        notes.push(format!("{}: {} more pictures alike", port.name, all.len() - MOST_NOTES));
    }
    let shape = frame.shape(pictures.len(), size.unwrap_or_default());
    let planes = matches!(frame.layout, Layout::Nchw);
    Ok(match frame.dtype.class() {
        Class::Float if frame.dtype == DType::F64 => Tensor::from_vec(
            &shape,
            ordered(&all, planes, |channel, byte| levels.value(channel, byte)),
        ),
        Class::Float => {
            let value = |channel, byte| levels.value(channel, byte) as f32;
            Tensor::from_vec(&shape, ordered(&all, planes, value)).cast(frame.dtype)
        }
        _ => Tensor::from_vec(&shape, ordered(&all, planes, |_, byte| byte)).cast(frame.dtype),
    })
}

fn other_size(
    port: &Port,
    frame: &Frame,
    picture: &Encoded,
    (height, width): (usize, usize),
    first: Option<(usize, usize)>,
) -> Diagnostic {
    let (other_height, other_width) = first.unwrap_or_default();
    let channels_last = usize::from(matches!(frame.layout, Layout::Nhwc));
    let sides = &port.shape[port.shape.len() - 2 - channels_last..];
    let option = |(extent, side): (&PortExtent, usize)| match extent {
        PortExtent::Symbolic(name) => Some(format!("--dim {name}={side}")),
        PortExtent::Fixed(_) | PortExtent::Any => None,
    };
    let options: Vec<String> =
        sides.iter().zip([other_height, other_width]).filter_map(option).collect();
    let message = format!("the pictures for input `{}` differ in size", port.name);
    unfit(codes::WRONG_SHAPE, message, &picture.place)
        .because(format!(
            "it has {width} x {height} pixels, the first {other_width} x {other_height}"
        ))
        .remedy(match options.is_empty() {
            false => format!("fix the free extents, such as `{}`", options.join(" ")),
            true => "give pictures of one size".to_owned(),
        })
}

fn check_bytes(frame: &Frame, count: usize, size: (usize, usize), picture: &Encoded) -> Result<()> {
    let shape = frame.shape(count, size);
    if byte_size(frame.dtype, &shape).is_some_and(|bytes| bytes <= MOST_BYTES) {
        return Ok(());
    }
    let message = format!("{count} pictures make a tensor {}{shape:?}", frame.dtype);
    Err(Diagnostic::error(codes::BAD_IMAGE, message)
        .at(picture.place.clone())
        .because(format!("at most {MOST_BYTES} bytes are made of pictures"))
        .remedy("give fewer at a time")
        .into())
}

/// A picture at the size of the frame, and what was done to it.
fn fitted(picture: &Encoded, frame: &Frame, options: &PictureOptions) -> Result<(Pixels, String)> {
    let bad = |reason: String| {
        Diagnostic::error(codes::BAD_IMAGE, "the picture cannot be read")
            .at(picture.place.clone())
            .because(reason)
    };
    let pixels = decode_upright(&picture.bytes, frame.format)
        .map_err(|reason| bad(reason).remedy("save it anew, as PNG or JPEG"))?;
    let from = (pixels.height, pixels.width);
    if from.0 == 0 || from.1 == 0 {
        return Err(bad("it has no pixels".to_owned()).remedy("give another").into());
    }
    let plan = Plan::of(from, (frame.height, frame.width), options.fit).map_err(|reason| {
        let side = frame.height.max(frame.width).unwrap_or(1);
        bad(reason).remedy(format!("give `--resize {side}` or more, or `--fit crop` instead"))
    })?;
    if plan.most_pixels() > MOST_PIXELS {
        let (height, width) = plan.resized;
        let reason = format!("it is to be resized to {width} x {height} pixels");
        return Err(bad(reason).remedy("give it smaller, or `--fit stretch`").into());
    }
    if plan.result.0 == 0 || plan.result.1 == 0 {
        let reason = "the input takes no pixels".to_owned();
        return Err(bad(reason).remedy("give larger extents").into());
    }
    let resized = resize(pixels, plan.resized);
    Ok((placed(resized, plan.result), said(picture, frame, options, from, plan)))
}

/// What was done to the size, in words.
fn said(
    picture: &Encoded,
    frame: &Frame,
    options: &PictureOptions,
    from: (usize, usize),
    plan: Plan,
) -> String {
    let size = |(height, width): (usize, usize)| format!("{width} x {height}");
    let channels = match frame.format {
        PixelFormat::Rgb => "RGB",
        PixelFormat::Bgr => "BGR",
        PixelFormat::Grayscale => "grey",
        PixelFormat::Rgba => "RGBA",
    };
    let mut text = format!("{}: {} pixels, {channels}", picture.place, size(from));
    if plan.resized != from {
        text += &format!(", resized to {}", size(plan.resized));
    }
    if plan.result != plan.resized {
        text += &match options.fit {
            Fit::Letterbox => format!(", in {} of grey", size(plan.result)),
            _ => format!(", the middle {} of it", size(plan.result)),
        };
    }
    text + match frame.layout {
        Layout::Nchw => ", channels in front",
        Layout::Nhwc => ", channels last",
    }
}

/// The middle of a picture, or the picture in the middle of grey.
fn placed(pixels: Pixels, (height, width): (usize, usize)) -> Pixels {
    if (pixels.height, pixels.width) == (height, width) {
        return pixels;
    }
    let channels = pixels.channels;
    let mut bytes = vec![GREY; height * width * channels];
    // Half of what is left, a half of a pixel going to the even side, as torchvision rounds.
    let half = |left: usize| (left as f64 / 2.0).round_ties_even() as usize;
    let axis = |from: usize, to: usize| {
        (half(from.saturating_sub(to)), half(to.saturating_sub(from)), from.min(to))
    };
    let (top, top_to, rows) = axis(pixels.height, height);
    let (left, left_to, columns) = axis(pixels.width, width);
    for row in 0..rows {
        let from = ((top + row) * pixels.width + left) * channels;
        let to = ((top_to + row) * width + left_to) * channels;
        let length = columns * channels;
        bytes[to..to + length].copy_from_slice(&pixels.bytes[from..from + length]);
    }
    Pixels { height, width, channels, bytes }
}

/// The elements of all pictures, in planes of a channel each or with channels innermost.
fn ordered<T>(all: &[Pixels], planes: bool, value: impl Fn(usize, u8) -> T) -> Vec<T> {
    let mut elements = Vec::with_capacity(all.iter().map(|pixels| pixels.bytes.len()).sum());
    for pixels in all {
        let channels = pixels.channels;
        match planes {
            true => {
                for channel in 0..channels {
                    let bytes = pixels.bytes.iter().skip(channel).step_by(channels);
                    elements.extend(bytes.map(|&byte| value(channel, byte)));
                }
            }
            false => {
                let bytes = pixels.bytes.iter().enumerate();
                elements.extend(bytes.map(|(at, &byte)| value(at % channels, byte)));
            }
        }
    }
    elements
}

/// What each byte of each channel becomes.
struct Levels {
    scale: f64,
    mean: Vec<f64>,
    std: Vec<f64>,
    is_float: bool,
}

impl Levels {
    fn of(frame: &Frame, options: &PictureOptions, port: &Port, place: &str) -> Result<Levels> {
        let is_float = frame.dtype.class() == Class::Float;
        let is_asked =
            options.scale.is_some() || !options.mean.is_empty() || !options.std.is_empty();
        if !is_float && is_asked {
            let message = format!("input `{}` takes bytes as they are", port.name);
            let refused = unfit(codes::WRONG_DTYPE, message, place);
            return Err(refused
                .because(format!("the model declares {port}, which has no fractions"))
                .remedy("leave out the mean, the deviation, the scale and the preset")
                .into());
        }
        let channels = frame.format.channels();
        let spread = |values: &[f64], default: f64, what: &str| match values {
            [] => Ok(vec![default; channels]),
            [one] => Ok(vec![*one; channels]),
            _ if values.len() == channels => Ok(values.to_vec()),
            _ => {
                let given = values.len();
                let message = format!("the {what} has {given} numbers for {channels} channels");
                let reason = format!("the model declares {port}");
                let remedy = "give one number for all channels, or one for each, red first";
                Err(unfit(codes::WRONG_SHAPE, message, place).because(reason).remedy(remedy))
            }
        };
        let mut mean = spread(&options.mean, 0.0, "mean")?;
        let mut std = spread(&options.std, 1.0, "deviation")?;
        if std.contains(&0.0) || mean.iter().chain(&std).any(|it| !it.is_finite()) {
            let message = "the mean or the deviation makes no number of a pixel".to_owned();
            let refused = unfit(codes::WRONG_SHAPE, message, place);
            let refused = refused.because("a deviation is 0, or a number is not finite");
            return Err(refused.remedy("give finite numbers, deviations other than 0").into());
        }
        if frame.format == PixelFormat::Bgr {
            mean.reverse();
            std.reverse();
        }
        Ok(Levels { scale: options.scale.unwrap_or(1.0), mean, std, is_float })
    }

    fn value(&self, channel: usize, byte: u8) -> f64 {
        (f64::from(byte) * self.scale / 255.0 - self.mean[channel]) / self.std[channel]
    }

    fn said(&self, options: &PictureOptions) -> String {
        if !self.is_float {
            return ", 0 to 255".to_owned();
        }
        let list =
            |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<String>>().join(",");
        let mut text = format!(", scaled to 0..{}", self.scale);
        if !options.mean.is_empty() {
            text += &format!(", less {}", list(&self.mean));
        }
        if !options.std.is_empty() {
            text += &format!(", by {}", list(&self.std));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::tests::port;

    /// 5 x 7 pixels of three channels that look like noise, as PNG.
    fn noise() -> Encoded {
        let bytes = (0..105_u32).map(|at| (at * at * 31 + at * 17) as u8).collect();
        let image = image::RgbImage::from_raw(7, 5, bytes).expect("as many bytes");
        let mut file = std::io::Cursor::new(Vec::new());
        image.write_to(&mut file, image::ImageFormat::Png).expect("encoded");
        Encoded { place: "noise.png".to_owned(), bytes: file.into_inner().into() }
    }

    fn made(text: &str, options: &PictureOptions) -> Tensor {
        tensor_of_pictures(&[noise()], &port(text), options, &mut Vec::new()).expect("a tensor")
    }

    /// What `Resize(4)`, `CenterCrop(2)`, division by 255 and `Normalize` give, by PIL 13 and
    /// NumPy in f32.
    #[test]
    fn as_the_reference_preprocessing() {
        let options = PictureOptions { fit: Fit::Side(4), ..PictureOptions::imagenet() };
        let expected = [
            0.228187397,
            -0.765048385,
            -0.439678073,
            -0.011559267,
            0.555322230,
            -0.232492968,
            -0.162464961,
            0.992997229,
            0.060479376,
            0.443921775,
            -0.688975930,
            -0.479825616,
        ];
        for text in ["x: f32[n, 3, 2, 2]", "x: f64[3, 2, 2]"] {
            for (value, expected) in made(text, &options).to_f64_vec().iter().zip(expected) {
                assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
            }
        }
        let last = made("x: f32[n, 2, 2, 3]", &options);
        assert_eq!(last.shape(), [1, 2, 2, 3]);
        assert!((last.get_f64(1) - expected[4]).abs() < 1e-6);
    }

    /// What PIL's `convert("L")` gives.
    #[test]
    fn bytes_as_they_are() {
        let grey = made("x: u8[1, h, w]", &PictureOptions::default());
        assert_eq!(grey.shape(), [1, 5, 7]);
        assert_eq!(grey.bytes()[..7], [46, 63, 126, 158, 87, 32, 202]);
        assert_eq!(grey.to_f64_vec().iter().sum::<f64>(), 4064.0);
        let colours = made("x: i32[1, h, w, 3]", &PictureOptions::default());
        assert_eq!(colours.to_f64_vec()[..3], [0.0, 48.0, 158.0]);
    }

    #[test]
    fn many_pictures_make_few_notes() {
        let pictures: Vec<Encoded> = (0..9).map(|_| noise()).collect();
        let mut notes = Vec::new();
        let port = port("x: f16[n, 3, h, w]");
        let tensor = tensor_of_pictures(&pictures, &port, &PictureOptions::default(), &mut notes);
        assert_eq!(tensor.expect("a tensor").shape(), [9, 3, 5, 7]);
        assert_eq!((notes.len(), notes[4].as_str()), (5, "x: 5 more pictures alike"));
    }
}
