//! Tensors of the file as host tensors.
//!
//! Raw and external bytes are slices of mapped files; elements in the fields of their type, which
//! only small or old files use, are copied. All sizes are checked before anything is allocated.

use base::limits::exceeded;
use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use front::Graph;
use tensor::tensor::{byte_size, element_count};
use tensor::{DType, Scalar, Tensor};

use crate::data_type::data_type;
use crate::external::ExternalData;
use crate::proto::{SparseTensorProto, TensorProto};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Reads a tensor.
pub(crate) fn decode(
    proto: &TensorProto,
    external: &ExternalData,
    limits: &Limits,
) -> Result<Tensor> {
    decode_inner(proto, external, limits).map_err(|found| match proto.name.as_str() {
        "" => found,
        name => found.or_at(|| format!("tensor \"{name}\"")),
    })
}

fn decode_inner(proto: &TensorProto, external: &ExternalData, limits: &Limits) -> Result<Tensor> {
    let dtype = data_type(proto.data_type.into())?;
    let shape = checked_shape(&proto.dims, limits)?;
    let (Some(count), Some(size)) = (element_count(&shape), byte_size(dtype, &shape)) else {
        return Err(too_large(&shape));
    };
    let filled = [
        proto.raw_data.as_ref().is_some_and(|raw| !raw.is_empty()),
        !proto.float_data.is_empty(),
        !proto.int32_data.is_empty(),
        !proto.int64_data.is_empty(),
        !proto.double_data.is_empty(),
        !proto.uint64_data.is_empty(),
        !proto.string_data.is_empty(),
        proto.data_location == 1,
    ];
    if filled.into_iter().filter(|is_filled| *is_filled).count() > 1 {
        return Err(Diagnostic::error(
            codes::INCONSISTENT_SHAPES,
            "a tensor's data is given more than once",
        )
        .because("several of its fields are filled, of which one alone may be")
        .remedy("export the model again"));
    }
    if dtype == DType::String {
        return strings(proto, &shape, count);
    }
    let bytes = if proto.data_location == 1 {
        external.bytes(proto, size)?
    } else if let Some(raw) = &proto.raw_data {
        raw.clone()
    } else {
        return typed_fields(proto, dtype, &shape, count);
    };
    Tensor::from_bytes(dtype, &shape, bytes).map_err(wrong_size)
}

/// The shape of a tensor in the file.
fn checked_shape(dims: &[i64], limits: &Limits) -> Result<Vec<usize>> {
    if dims.len() > limits.rank {
        return Err(exceeded(
            "rank",
            dims.len() as u64,
            format!("a tensor of {} axes", dims.len()),
        )
        .because(format!("at most {} are accepted", limits.rank)));
    }
    let shape: Option<Vec<usize>> = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    let Some(shape) = shape else {
        return Err(Diagnostic::error(
            codes::INCONSISTENT_SHAPES,
            format!("a tensor's shape {dims:?} has a negative extent"),
        )
        .because("the extents of a constant are 0 or more")
        .remedy("export the model again"));
    };
    match element_count(&shape) {
        Some(count) if count as u64 <= limits.elements => Ok(shape),
        _ => Err(too_large(&shape)),
    }
}

fn too_large(shape: &[usize]) -> Diagnostic {
    let count = shape.iter().fold(1, |count: u64, &extent| count.saturating_mul(extent as u64));
    exceeded("elements", count, format!("a tensor of shape {shape:?} is too large"))
        .because("the number of elements is limited")
}

fn wrong_size(reason: String) -> Diagnostic {
    Diagnostic::error(codes::INCONSISTENT_SHAPES, "a tensor's data does not fit its shape")
        .because(reason)
        .remedy("copy, download or export the file again")
}

fn strings(proto: &TensorProto, shape: &[usize], count: usize) -> Result<Tensor> {
    if proto.string_data.len() != count {
        let given = proto.string_data.len();
        return Err(wrong_size(format!("{given} strings for {count} elements")));
    }
    let read = |bytes: &Bytes| String::from_utf8(bytes.to_vec());
    let strings: std::result::Result<Vec<String>, _> = proto.string_data.iter().map(read).collect();
    match strings {
        Ok(strings) => Ok(Tensor::from_strings(shape, strings)),
        Err(_) => Err(Diagnostic::error(codes::NOT_ONNX, "a string of a tensor cannot be read")
            .because("it is not valid UTF-8")
            .remedy("export the model again")),
    }
}

/// Elements in `float_data` and its like.
fn typed_fields(
    proto: &TensorProto,
    dtype: DType,
    shape: &[usize],
    count: usize,
) -> Result<Tensor> {
    let check = |given: usize, expected: usize| {
        let complaint = || wrong_size(format!("{given} numbers where {expected} are needed"));
        if given == expected { Ok(()) } else { Err(complaint()) }
    };
    let scalars = |bits: &mut dyn Iterator<Item = u64>| {
        let scalars: Vec<Scalar> = bits.map(|bits| Scalar::from_bits(dtype, bits)).collect();
        check(scalars.len(), count)?;
        Ok(Tensor::from_scalars(dtype, shape, &scalars))
    };
    match dtype {
        DType::F32 => check(proto.float_data.len(), count)
            .map(|()| Tensor::from_slice(shape, &proto.float_data)),
        DType::F64 => check(proto.double_data.len(), count)
            .map(|()| Tensor::from_slice(shape, &proto.double_data)),
        DType::I64 => check(proto.int64_data.len(), count)
            .map(|()| Tensor::from_slice(shape, &proto.int64_data)),
        DType::U32 | DType::U64 => scalars(&mut proto.uint64_data.iter().copied()),
        _ if dtype.bits() < 8 => {
            // Each number is a byte of packed elements.
            let size = byte_size(dtype, shape).unwrap_or(0);
            check(proto.int32_data.len(), size)?;
            let packed: Vec<u8> = proto.int32_data.iter().map(|number| *number as u8).collect();
            Tensor::from_bytes(dtype, shape, packed.into()).map_err(wrong_size)
        }
        _ => scalars(&mut proto.int32_data.iter().map(|&number| u64::from(number as u32))),
    }
}

/// Reads a sparse tensor into a dense one.
pub(crate) fn decode_sparse(
    proto: &SparseTensorProto,
    external: &ExternalData,
    graph: &mut Graph,
) -> Result<Tensor> {
    let (Some(values), Some(indices)) = (&proto.values, &proto.indices) else {
        return Err(sparse_error("values or indices are missing"));
    };
    let shape = checked_shape(&proto.dims, &graph.limits)?;
    let count = element_count(&shape).ok_or_else(|| too_large(&shape))?;
    let values = decode(values, external, &graph.limits)?;
    let indices = decode(indices, external, &graph.limits)?;
    if values.dtype() == DType::String || indices.dtype() != DType::I64 {
        return Err(sparse_error("indices must be int64, values numbers"));
    }
    graph.count_computed(count, "those of a sparse tensor that is made dense")?;
    if byte_size(values.dtype(), &shape).is_none() {
        return Err(too_large(&shape));
    }
    let coordinates = match indices.shape() {
        [entries] if *entries == values.len() => None,
        [entries, rank] if *entries == values.len() && *rank == shape.len() => Some(*rank),
        _ => return Err(sparse_error("the indices do not have the shape of the values")),
    };
    let mut dense = Tensor::zeros(values.dtype(), &shape);
    for entry in 0..values.len() {
        let index = match coordinates {
            None => usize::try_from(indices.get_scalar(entry).as_i64()).ok(),
            Some(rank) => shape.iter().enumerate().try_fold(0usize, |index, (axis, &extent)| {
                let at = indices.get_scalar(entry * rank + axis).as_i64();
                let at = usize::try_from(at).ok().filter(|at| *at < extent)?;
                Some(index * extent + at)
            }),
        };
        match index.filter(|index| *index < count) {
            Some(index) => dense.set_scalar(index, values.get_scalar(entry)),
            None => return Err(sparse_error("an index is outside of the shape")),
        }
    }
    Ok(dense)
}

fn sparse_error(reason: &str) -> Diagnostic {
    Diagnostic::error(codes::INCONSISTENT_SHAPES, "a sparse tensor is malformed")
        .because(reason)
        .remedy("export the model again")
}
