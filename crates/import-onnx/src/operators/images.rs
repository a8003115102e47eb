//! Encoded images, which a host function decodes.

use front::{Graph, type_error};
use tensor::DType;

use super::Lowered;
use crate::node::Node;

/// `ImageDecoder`: bytes of a file as `[height, width, channels]`.
pub(super) fn decode(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if x.dtype() != DType::U8 || x.rank() != 1 {
        return Err(type_error(format!("an image of {} and rank {}", x.dtype(), x.rank())));
    }
    let pixels = node.word("pixel_format", &["RGB", "BGR", "Grayscale"])?;
    let channels = if pixels == "Grayscale" { 1 } else { 3 };
    let result = (DType::U8, vec![None, None, Some(channels.into())]);
    graph.host(("decode_image", node.output()), &[("pixels", pixels)], &[x], &[result])
}
