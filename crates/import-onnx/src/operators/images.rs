//! Encoded images, whose bytes are known while importing as strings are: an executable is told
//! those that its inputs hold, and what is decoded from them is a constant.

use base::{Diagnostic, codes};
use front::{FactKind, Graph, constant_value, type_error};
use host_ops::PixelFormat;
use tensor::{DType, Tensor};

use super::Lowered;
use crate::node::Node;

/// `ImageDecoder`: bytes of a file as `[height, width, channels]`.
pub(super) fn decode(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if x.dtype() != DType::U8 || x.rank() != 1 {
        return Err(type_error(format!("an image of {} and rank {}", x.dtype(), x.rank())));
    }
    let format = match node.word("pixel_format", &["RGB", "BGR", "Grayscale"])? {
        "RGB" => PixelFormat::Rgb,
        "BGR" => PixelFormat::Bgr,
        _ => PixelFormat::Grayscale,
    };
    let Some(encoded) = x.numbers() else {
        return Err(node.not_known_as(0, "bytes of the image", FactKind::Contents));
    };
    let encoded: Vec<u8> = encoded.iter().map(|byte| byte.as_i64() as u8).collect();
    let pixels = host_ops::decode_image(&encoded, format).map_err(|reason| {
        let name = node.proto.input.first().map_or("", String::as_str);
        Diagnostic::error(codes::BAD_IMAGE, "the image cannot be decoded")
            .because(format!("`{name}`: {reason}"))
            .remedy("give the bytes of an undamaged image file")
    })?;
    let shape = [pixels.height, pixels.width, pixels.channels];
    graph.check_size(&shape.map(sym::Expr::from))?;
    let name = node.proto.output.first().map_or("", String::as_str);
    Ok(vec![constant_value(name, Tensor::from_slice(&shape, &pixels.bytes), true)])
}
