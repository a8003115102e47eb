//! Encoded images as pixels of eight bits.
//!
//! Formats are told by their first bytes: JPEG, PNG, BMP, TIFF, WebP, PNM, JPEG 2000. All but JPEG
//! have one right result; JPEG's standard leaves roundings to the decoder, so that two decoders may
//! differ by a few steps of 255. Transparency is left out, deeper channels are shortened.

use std::io::Cursor;

use hayro_jpeg2000::{ColorSpace, DecodeSettings, DecoderContext};
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};

/// The most pixels of an image, and a bound on what decoding one takes: 8 bytes each in `image`.
const MOST_PIXELS: u64 = 1 << 26;
/// The most samples of a JPEG 2000 image, which its decoder keeps as several f32.
const MOST_SAMPLES: u64 = 1 << 25;

/// What the channels of the result are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luminance.
    Grayscale,
}

/// A decoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// 1 or 3.
    pub channels: usize,
    /// `height * width * channels` of them, channels innermost.
    pub bytes: Vec<u8>,
}

/// Decodes an image.
///
/// # Errors
/// What is wrong with it, on one line.
pub fn decode_image(encoded: &[u8], format: PixelFormat) -> Result<Pixels, String> {
    let is_jpeg_2000 = encoded.starts_with(b"\0\0\0\x0cjP  \r\n\x87\n")
        || encoded.starts_with(&[0xff, 0x4f, 0xff, 0x51]);
    let (height, width, channels, bytes) =
        if is_jpeg_2000 { jpeg_2000(encoded)? } else { other(encoded)? };
    let bytes = match (channels, format) {
        (1, PixelFormat::Grayscale) | (3, PixelFormat::Rgb) => bytes,
        (1, _) => bytes.iter().flat_map(|&grey| [grey; 3]).collect(),
        (_, PixelFormat::Grayscale) => bytes.chunks_exact(3).map(luminance).collect(),
        (_, _) => bytes.chunks_exact(3).flat_map(|rgb| [rgb[2], rgb[1], rgb[0]]).collect(),
    };
    let channels = if format == PixelFormat::Grayscale { 1 } else { 3 };
    Ok(Pixels { height, width, channels, bytes })
}

/// ITU-R 601-2's weights of red, green and blue in 16 bits, rounded.
fn luminance(rgb: &[u8]) -> u8 {
    let sum = u32::from(rgb[0]) * 19595 + u32::from(rgb[1]) * 38470 + u32::from(rgb[2]) * 7471;
    ((sum + 0x8000) >> 16) as u8
}

/// Height, width, channels (1 or 3), samples.
type Decoded = (usize, usize, usize, Vec<u8>);

fn too_large(width: u32, height: u32) -> String {
    format!("it has {width} x {height} pixels, more than decoding is allowed to take memory for")
}

fn one_line(error: &impl ToString) -> String {
    error.to_string().lines().collect::<Vec<_>>().join("; ")
}

fn other(encoded: &[u8]) -> Result<Decoded, String> {
    let reader = ImageReader::new(Cursor::new(encoded));
    let mut reader = reader.with_guessed_format().map_err(|error| one_line(&error))?;
    if reader.format().is_none() {
        return Err("it is none of JPEG, PNG, BMP, TIFF, WebP, PNM and JPEG 2000".to_owned());
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(8 * MOST_PIXELS);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|error| one_line(&error))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(too_large(width, height));
    }
    let image = DynamicImage::from_decoder(decoder).map_err(|error| one_line(&error))?;
    let (height, width) = (height as usize, width as usize);
    Ok(match image.color().has_color() {
        true => (height, width, 3, image.into_rgb8().into_raw()),
        false => (height, width, 1, image.into_luma8().into_raw()),
    })
}

fn jpeg_2000(encoded: &[u8]) -> Result<Decoded, String> {
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
    let bytes = match samples == channels {
        true => all,
        false => all.chunks_exact(samples).flat_map(|pixel| &pixel[..channels]).copied().collect(),
    };
    Ok((height, width, channels, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_image_is_read() {
        let text = b"P6 2 1 255\n\x01\x02\x03\xff\x00\x00";
        let bgr = decode_image(text, PixelFormat::Bgr).expect("an image");
        assert_eq!((bgr.height, bgr.width, bgr.channels), (1, 2, 3));
        assert_eq!(bgr.bytes, [3, 2, 1, 0, 0, 255]);
        let grey = decode_image(text, PixelFormat::Grayscale).expect("an image");
        assert_eq!(grey.bytes, [2, 76]);
        let from_grey = decode_image(b"P5 1 1 255\n\x07", PixelFormat::Rgb).expect("an image");
        assert_eq!(from_grey.bytes, [7; 3]);
    }

    #[test]
    fn damaged_images_are_refused() {
        let refused = |bytes: &[u8]| decode_image(bytes, PixelFormat::Rgb).expect_err("a reason");
        assert!(refused(b"").contains("none of"));
        assert!(refused(b"neither").contains("none of"));
        refused(b"P6 2 1 255\n\x01");
        refused(b"\x89PNG\r\n\x1a\n");
        refused(b"\0\0\0\x0cjP  \r\n\x87\n");
        refused(b"P6 4000000000 4000000000 255\n\x01");
        let mut huge = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
        huge.extend(b"\xff\xff\xff\x7f\xff\xff\xff\x7f\x01\0\x18\0");
        refused(&huge);
    }
}
