//! Encoded images as pixels of eight bits.
//!
//! Formats are told by their first bytes: JPEG, PNG, BMP, TIFF, WebP, PNM, JPEG 2000. All but JPEG
//! have one right result; JPEG's standard leaves roundings to the decoder, so that two decoders may
//! differ by a few steps of 255. Transparency is left out unless it is asked for, deeper channels
//! are shortened.

#[cfg(feature = "images")]
use crate::decoders;

/// What the channels of the result are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luminance.
    Grayscale,
    /// Red, green, blue, opacity.
    Rgba,
}

/// A decoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// 1, 3 or 4.
    pub channels: usize,
    /// `height * width * channels` of them, channels innermost.
    pub bytes: Vec<u8>,
}

impl PixelFormat {
    /// How many there are.
    #[must_use]
    pub fn channels(self) -> usize {
        match self {
            PixelFormat::Grayscale => 1,
            PixelFormat::Rgb | PixelFormat::Bgr => 3,
            PixelFormat::Rgba => 4,
        }
    }

    /// The channels of one pixel, of those of a decoded one: grey, or red, green, blue, each with
    /// or without opacity.
    fn of(self, pixel: &[u8]) -> ([u8; 4], usize) {
        let (rgb, opacity) = match *pixel {
            [grey] => ([grey; 3], 255),
            [grey, opacity] => ([grey; 3], opacity),
            [red, green, blue] => ([red, green, blue], 255),
            [red, green, blue, opacity, ..] => ([red, green, blue], opacity),
            [] => ([0; 3], 255),
        };
        let [red, green, blue] = rgb;
        let result = match self {
            PixelFormat::Rgb | PixelFormat::Rgba => [red, green, blue, opacity],
            PixelFormat::Bgr => [blue, green, red, opacity],
            PixelFormat::Grayscale if pixel.len() < 3 => [red; 4],
            PixelFormat::Grayscale => [luminance(rgb); 4],
        };
        (result, self.channels())
    }
}

/// Decodes an image, its rows as they are stored.
///
/// # Errors
/// What is wrong with it, on one line.
pub fn decode_image(encoded: &[u8], format: PixelFormat) -> Result<Pixels, String> {
    decode(encoded, format, false)
}

/// As [`decode_image`], turned and mirrored as the camera noted (Exif's orientation).
///
/// # Errors
/// As [`decode_image`].
pub fn decode_upright(encoded: &[u8], format: PixelFormat) -> Result<Pixels, String> {
    decode(encoded, format, true)
}

fn decode(encoded: &[u8], format: PixelFormat, upright: bool) -> Result<Pixels, String> {
    let Pixels { height, width, channels, bytes } = decoders::decode(encoded, upright)?;
    let bytes = match (channels, format) {
        (1, PixelFormat::Grayscale) | (3, PixelFormat::Rgb) | (4, PixelFormat::Rgba) => bytes,
        _ => {
            let mut converted = Vec::with_capacity(height * width * format.channels());
            for pixel in bytes.chunks_exact(channels) {
                let (values, count) = format.of(pixel);
                converted.extend(&values[..count]);
            }
            converted
        }
    };
    Ok(Pixels { height, width, channels: format.channels(), bytes })
}

/// ITU-R 601-2's weights of red, green and blue in 16 bits, rounded.
fn luminance(rgb: [u8; 3]) -> u8 {
    let sum = u32::from(rgb[0]) * 19595 + u32::from(rgb[1]) * 38470 + u32::from(rgb[2]) * 7471;
    ((sum + 0x8000) >> 16) as u8
}

#[cfg(not(feature = "images"))]
mod decoders {
    pub(super) fn decode(_: &[u8], _: bool) -> Result<super::Pixels, String> {
        Err("this program was built without the feature `images`".to_owned())
    }
}

#[cfg(all(test, feature = "images"))]
mod tests {
    use super::*;
    use crate::is_image;

    #[test]
    fn a_plain_image_is_read() {
        let text = b"P6 2 1 255\n\x01\x02\x03\xff\x00\x00";
        let bgr = decode_image(text, PixelFormat::Bgr).expect("an image");
        assert_eq!((bgr.height, bgr.width, bgr.channels), (1, 2, 3));
        assert_eq!(bgr.bytes, [3, 2, 1, 0, 0, 255]);
        let grey = decode_image(text, PixelFormat::Grayscale).expect("an image");
        assert_eq!(grey.bytes, [2, 76]);
        let opaque = decode_upright(text, PixelFormat::Rgba).expect("an image");
        assert_eq!((opaque.channels, &opaque.bytes[..4]), (4, &[1, 2, 3, 255][..]));
        assert!(is_image(b"\x89PNG\r\n\x1a\n") && !is_image(b"BMW,Audi"));
        let from_grey = decode_image(b"P5 1 1 255\n\x07", PixelFormat::Rgb).expect("an image");
        assert_eq!(from_grey.bytes, [7; 3]);
    }

    #[test]
    fn a_turned_photograph_stands_upright() {
        use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
        // One entry: the orientation (0x112), a number of 16 bits, is 6: to be turned right.
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let mut file = Vec::new();
        let mut encoder = PngEncoder::new(&mut file);
        encoder.set_exif_metadata(exif.to_vec()).expect("a format that takes it");
        encoder.write_image(&[7, 9], 2, 1, ExtendedColorType::L8).expect("encoded");
        let stored = decode_image(&file, PixelFormat::Grayscale).expect("an image");
        let upright = decode_upright(&file, PixelFormat::Grayscale).expect("an image");
        assert_eq!((stored.height, stored.width), (1, 2));
        assert_eq!((upright.height, upright.width, upright.bytes), (2, 1, vec![7, 9]));
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
