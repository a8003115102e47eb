//! Pictures, by the libraries that read their formats.

use std::io::Cursor;

use hayro_jpeg2000::{ColorSpace, DecodeSettings, DecoderContext};
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, metadata::Orientation};

use crate::pixels::Pixels;

/// The most pixels of an image, and a bound on what decoding one takes: 8 bytes each in `image`.
const MOST_PIXELS: u64 = 1 << 26;
/// The most samples of a JPEG 2000 image, which its decoder keeps as several f32.
const MOST_SAMPLES: u64 = 1 << 25;

/// Whether the first bytes of a file are those of an image, and of no text.
#[must_use]
pub fn is_image(encoded: &[u8]) -> bool {
    let is_binary = encoded.iter().take(16).any(|byte| *byte == 0 || *byte >= 0x80);
    is_binary && (is_jpeg_2000(encoded) || image::guess_format(encoded).is_ok())
}

fn is_jpeg_2000(encoded: &[u8]) -> bool {
    encoded.starts_with(b"\0\0\0\x0cjP  \r\n\x87\n")
        || encoded.starts_with(&[0xff, 0x4f, 0xff, 0x51])
}

/// Decodes an image, whatever format its first bytes tell: 1 or 3 channels, and one of opacity
/// where there is one. `upright` turns and mirrors it as the camera noted.
///
/// # Errors
/// What is wrong with it, on one line.
pub(crate) fn decode(encoded: &[u8], upright: bool) -> Result<Pixels, String> {
    if is_jpeg_2000(encoded) { jpeg_2000(encoded) } else { other(encoded, upright) }
}

fn too_large(width: u32, height: u32) -> String {
    format!("it has {width} x {height} pixels, more than decoding is allowed to take memory for")
}

fn one_line(error: &impl ToString) -> String {
    error.to_string().lines().collect::<Vec<_>>().join("; ")
}

fn other(encoded: &[u8], upright: bool) -> Result<Pixels, String> {
    let reader = ImageReader::new(Cursor::new(encoded));
    let mut reader = reader.with_guessed_format().map_err(|error| one_line(&error))?;
    if reader.format().is_none() {
        return Err("it is none of JPEG, PNG, BMP, TIFF, WebP, PNM and JPEG 2000".to_owned());
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(8 * MOST_PIXELS);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| one_line(&error))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(too_large(width, height));
    }
    // An orientation that cannot be read is none.
    let orientation = match upright {
        true => decoder.orientation().unwrap_or(Orientation::NoTransforms),
        false => Orientation::NoTransforms,
    };
    let mut image = DynamicImage::from_decoder(decoder).map_err(|error| one_line(&error))?;
    image.apply_orientation(orientation);
    let (height, width) = (image.height() as usize, image.width() as usize);
    let colour = image.color();
    let (channels, bytes) = match (colour.has_color(), colour.has_alpha()) {
        (true, true) => (4, image.into_rgba8().into_raw()),
        (true, false) => (3, image.into_rgb8().into_raw()),
        (false, true) => (2, image.into_luma_alpha8().into_raw()),
        (false, false) => (1, image.into_luma8().into_raw()),
    };
    Ok(Pixels { height, width, channels, bytes })
}

fn jpeg_2000(encoded: &[u8]) -> Result<Pixels, String> {
    let image = hayro_jpeg2000::Image::new(encoded, &DecodeSettings::default())
        .map_err(|error| one_line(&error))?;
    let (width, height) = (image.width(), image.height());
    let channels = match image.color_space() {
        ColorSpace::Gray | ColorSpace::Icc { num_channels: 1, .. } => 1,
        ColorSpace::RGB | ColorSpace::Icc { num_channels: 3, .. } => 3,
        other => return Err(format!("its colours are {other:?}")),
    };
    let samples = channels + usize::from(image.has_alpha());
    if u64::from(width) * u64::from(height) * samples as u64 > MOST_SAMPLES {
        return Err(too_large(width, height));
    }
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(|error| one_line(&error))?;
    let all = decoded.data_u8();
    let (height, width) = (height as usize, width as usize);
    if all.len() != height * width * samples {
        return Err(format!("it has {} samples", all.len()));
    }
    Ok(Pixels { height, width, channels: samples, bytes: all })
}
