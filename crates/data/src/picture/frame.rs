//! What a picture has to become for an input: layout, channels, extents, as the port declares them.

use base::{Diagnostic, Result, codes};
use host_ops::PixelFormat;
use tensor::{Class, DType};
use tilewright::{Port, PortExtent};

use super::{Layout, PictureOptions};
use crate::sentences::unfit;

/// What an input takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) layout: Layout,
    /// Whether there is an axis for several pictures.
    pub(super) has_batch: bool,
    pub(super) format: PixelFormat,
    /// The height, where it is fixed.
    pub(super) height: Option<usize>,
    /// The width, where it is fixed.
    pub(super) width: Option<usize>,
    pub(super) dtype: DType,
}

/// The numbers of channels that a picture may have.
const CHANNELS: [usize; 3] = [1, 3, 4];

impl Frame {
    /// The frame of a port.
    pub(super) fn of(port: &Port, options: &PictureOptions, place: &str) -> Result<Frame> {
        let dtype = port.dtype.filter(|dtype| {
            let class = dtype.class();
            class == Class::Float || class == Class::Unsigned || class == Class::Signed
        });
        let dtype = dtype.filter(|dtype| dtype.bits() >= 8 && *dtype != DType::I8);
        let Some(dtype) = dtype else {
            let reason = format!("the model declares {port}, whose elements are no 0 to 255");
            return Err(no_picture(port, place, codes::WRONG_DTYPE).because(reason).into());
        };
        let rank = port.shape.len();
        if rank != 3 && rank != 4 || port.shape.contains(&PortExtent::Any) {
            let reason =
                format!("the model declares {port}; a picture has 3 axes, or 4 in a batch");
            return Err(no_picture(port, place, codes::WRONG_SHAPE).because(reason).into());
        }
        let [first, second, third] =
            [rank - 3, rank - 2, rank - 1].map(|axis| match port.shape[axis] {
                PortExtent::Fixed(extent) => Some(extent),
                PortExtent::Symbolic(_) | PortExtent::Any => None,
            });
        let layout = match options.layout {
            Some(layout) => layout,
            None => told(first, third).ok_or_else(|| {
                no_picture(port, place, codes::WRONG_SHAPE)
                    .because(format!("which axis holds the channels does not show in {port}"))
                    .remedy("say it with `--layout nchw` or `--layout nhwc`")
            })?,
        };
        let (channels, height, width) = match layout {
            Layout::Nchw => (first, second, third),
            Layout::Nhwc => (third, first, second),
        };
        let format = match channels {
            Some(1) => PixelFormat::Grayscale,
            Some(3) | None if options.bgr => PixelFormat::Bgr,
            Some(3) | None => PixelFormat::Rgb,
            Some(4) => PixelFormat::Rgba,
            Some(channels) => {
                let reason = format!("the model declares {port}, with {channels} channels");
                return Err(no_picture(port, place, codes::WRONG_SHAPE).because(reason).into());
            }
        };
        Ok(Frame { layout, has_batch: rank == 4, format, height, width, dtype })
    }

    /// The shape of so many pictures of a size.
    pub(super) fn shape(&self, count: usize, (height, width): (usize, usize)) -> Vec<usize> {
        let channels = self.format.channels();
        let picture = match self.layout {
            Layout::Nchw => [channels, height, width],
            Layout::Nhwc => [height, width, channels],
        };
        let batch = self.has_batch.then_some(count);
        batch.into_iter().chain(picture).collect()
    }
}

/// The layout that fixed extents tell: channels are few, and nothing else is.
fn told(first: Option<usize>, last: Option<usize>) -> Option<Layout> {
    let is_few = |extent: Option<usize>| extent.is_some_and(|it| CHANNELS.contains(&it));
    match (is_few(first), is_few(last)) {
        (true, false) => Some(Layout::Nchw),
        (false, true) => Some(Layout::Nhwc),
        (true, true) | (false, false) => None,
    }
}

fn no_picture(port: &Port, place: &str, code: &'static str) -> Diagnostic {
    unfit(code, format!("input `{}` takes no picture", port.name), place)
        .remedy("give it as an array, `.npy`, or the picture to another input")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::tests::port;

    #[test]
    fn ports_tell_what_they_take() {
        let of = |text: &str| Frame::of(&port(text), &PictureOptions::default(), "x.png");
        let frame = of("x: f32[n, 3, 224, 200]").expect("a frame");
        assert_eq!((frame.layout, frame.height, frame.width), (Layout::Nchw, Some(224), Some(200)));
        assert_eq!(frame.shape(2, (224, 200)), [2, 3, 224, 200]);
        let frame = of("x: u8[h, w, 1]").expect("a frame");
        assert_eq!((frame.layout, frame.height), (Layout::Nhwc, None));
        assert_eq!(frame.format, PixelFormat::Grayscale);
        for text in [
            "x: f32[4, 64]",
            "x: f32[n, a, b, c]",
            "x: f32[1, 3, 4, 4]",
            "x: f32[1, 5, 8, 8]",
            "x: string[1, 3, 8, 8]",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
