//! The archive: which members there are, their texts, and the elements of tensors.
//!
//! Two layouts are read. That of PyTorch 2.8 and later has a folder, in it `models/NAME.json` with
//! the graph, and for each tensor a row of a table that says in which member its elements lie, and
//! how. The earlier one has `serialized_exported_program.json`, and archives of `torch.save`.
//!
//! Elements stay where the archive is mapped, unless members are deflated or elements do not lie
//! row-major. What takes memory is charged before it is taken ([`Archive::charge`]).

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use base::limits::exceeded;
use base::{Diagnostic, Limits};
use bytes::Bytes;
use front::Accepted;
use serde_json::Value as Json;
use tensor::zip::{Member, members};
use tensor::{DType, Tensor, dense_strides, offsets};

use super::schema::{Reader, dtype_of, refused};
use super::torch_save;

/// Memory that a byte of JSON may take once it is read.
const BYTES_OF_JSON: u64 = 16;

/// The members by name, without the folder that all of them lie in.
pub(super) struct Archive {
    bytes: Bytes,
    members: HashMap<String, Member>,
    /// Memory that may still be taken.
    left: Cell<u64>,
    limits: Limits,
}

/// The tensors of a program by their names in the module.
pub(super) type Tensors = BTreeMap<String, Tensor>;

impl Archive {
    pub(super) fn open(bytes: Bytes, limits: &Limits) -> Accepted<Archive> {
        if bytes.len() as u64 > limits.file_bytes {
            let (size, most) = (bytes.len() as u64, limits.file_bytes);
            return Err(exceeded("file-bytes", size, "the model is too large")
                .because(format!("{size} bytes; at most {most} are read")));
        }
        let found = members(&bytes).map_err(refused)?;
        // All members of a new archive lie in one folder, called as the file was.
        let folder = found.iter().find_map(|it| it.name.strip_suffix("archive_format"));
        let folder = folder.unwrap_or_default().to_owned();
        let named = found
            .into_iter()
            .filter_map(|member| Some((member.name.strip_prefix(&folder)?.to_owned(), member)));
        let members = named.collect();
        let left = (bytes.len() as u64).saturating_mul(4).saturating_add(limits.decoded_bytes);
        Ok(Archive { bytes, members, left: Cell::new(left), limits: limits.clone() })
    }

    /// As [`Self::open`], of an archive within this one, whose memory counts as its own.
    pub(super) fn inner(&self, bytes: Bytes) -> Accepted<Archive> {
        let left = self.left.take();
        let inner = Archive::open(bytes, &self.limits)?;
        inner.left.set(left);
        Ok(inner)
    }

    /// Takes back what an archive within has left.
    pub(super) fn close(&self, inner: &Archive) {
        self.left.set(inner.left.take());
    }

    /// Counts memory that is about to be taken.
    pub(super) fn charge(&self, bytes: u64) -> Accepted<()> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                let most = self.limits.decoded_bytes;
                let needed = most.saturating_add(bytes);
                let message = "the file would take too much memory";
                Err(exceeded("decoded-bytes", needed, message).because(format!(
                    "it inflates, or is read, to more than {most} bytes and four times its size"
                )))
            }
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The content of a member.
    pub(super) fn content(&self, name: &str) -> Accepted<Bytes> {
        let at = |found: Diagnostic| found.at(format!("member `{name}`"));
        let member = self.members.get(name).ok_or("the archive has no such member".to_owned());
        let member = member.map_err(|reason| at(refused(reason)))?;
        if member.is_deflated() {
            self.charge(member.size).map_err(at)?;
        }
        member.content(&self.bytes).map_err(|reason| at(refused(reason)))
    }

    /// The JSON of a member.
    pub(super) fn json(&self, name: &str) -> Accepted<Json> {
        let at = |found: Diagnostic| found.at(format!("member `{name}`"));
        let content = self.content(name)?;
        self.charge(BYTES_OF_JSON.saturating_mul(content.len() as u64)).map_err(at)?;
        serde_json::from_slice(&content).map_err(|error| at(refused(error.to_string())))
    }

    /// The graph with all that is said of it.
    pub(super) fn program(&self) -> Accepted<Json> {
        const EARLIER: &str = "serialized_exported_program.json";
        if self.has(EARLIER) {
            return self.json(EARLIER);
        }
        let mut names: Vec<&str> = self
            .names()
            .filter_map(|name| name.strip_prefix("models/")?.strip_suffix(".json"))
            .collect();
        names.sort_unstable();
        match names[..] {
            [name] => self.json(&format!("models/{name}.json")),
            [] => Err(refused("it holds no exported program")),
            _ => Err(refused(format!("it holds {} programs: {}", names.len(), names.join(", ")))),
        }
    }

    /// Parameters, buffers and constants.
    pub(super) fn tensors(&self) -> Accepted<Tensors> {
        let mut tensors = Tensors::new();
        for name in ["serialized_state_dict.pt", "serialized_constants.pt"] {
            if self.has(name) {
                tensors.extend(torch_save::read(self, self.content(name)?, name)?);
            }
        }
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        for name in names {
            let Some((folder, file)) = name.rsplit_once('/') else { continue };
            if !matches!(folder, "data/weights" | "data/constants") {
                continue;
            }
            if file.ends_with("_config.json") {
                self.table(&self.json(name)?, folder, &mut tensors)
                    .map_err(|found| found.or_at(|| format!("member `{name}`")))?;
            } else if file.ends_with(".pt") {
                tensors.extend(torch_save::read(self, self.content(name)?, name)?);
            }
        }
        Ok(tensors)
    }

    /// The tensors of a table that says where each lies.
    fn table(&self, json: &Json, folder: &str, tensors: &mut Tensors) -> Accepted<()> {
        // Several tensors may share a member.
        let mut contents: HashMap<String, Bytes> = HashMap::new();
        for (name, row) in Reader::new(json, "the table").field("config")?.entries()? {
            let tensor = self.row(&row, folder, &mut contents);
            let tensor = tensor.map_err(|found| found.at(format!("tensor `{name}`")))?;
            if let Some(tensor) = tensor {
                tensors.insert(name.to_owned(), tensor);
            }
        }
        Ok(())
    }

    /// A tensor by its row; none of an object of another kind, which a graph may have and not use.
    fn row(
        &self,
        row: &Reader<'_>,
        folder: &str,
        contents: &mut HashMap<String, Bytes>,
    ) -> Accepted<Option<Tensor>> {
        let Some(meta) = row.optional("tensor_meta")? else { return Ok(None) };
        if row.field("use_pickle")?.flag()? {
            return Err(refused("it is of a class of its own, and stored as Python's objects are"));
        }
        let path = format!("{folder}/{}", row.field("path_name")?.text()?);
        if !contents.contains_key(&path) {
            contents.insert(path.clone(), self.content(&path)?);
        }
        let layout = Strided {
            dtype: dtype_of(meta.field("dtype")?.integer()?)?,
            shape: meta.field("sizes")?.counts()?,
            strides: meta.field("strides")?.counts()?,
            offset: meta.field("storage_offset")?.count()?,
        };
        self.strided(&contents[&path], &layout).map(Some)
    }

    /// The tensor whose elements lie in these bytes.
    pub(super) fn strided(&self, bytes: &Bytes, layout: &Strided) -> Accepted<Tensor> {
        let Strided { dtype, shape, strides, offset } = layout;
        let width = usize::try_from(dtype.bits() / 8).unwrap_or(1);
        let refuse = |reason: &str| refused(format!("{reason}: {dtype}{shape:?}"));
        if strides.len() != shape.len() {
            return Err(refuse("its strides are not as many as its axes"));
        }
        let count = tensor::tensor::element_count(shape);
        let count = count.filter(|&count| count as u64 <= self.limits.elements);
        let count = count.ok_or_else(|| {
            let most = self.limits.elements;
            exceeded("elements", most.saturating_add(1), "a tensor is too large")
                .because(format!("{dtype}{shape:?}; at most {most} elements are accepted"))
        })?;
        // The place of the last element, in elements.
        let last = shape.iter().zip(strides).try_fold(*offset, |last, (extent, stride)| {
            last.checked_add(extent.checked_sub(1)?.checked_mul(*stride)?)
        });
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(width));
        let is_within = count == 0 || end.is_some_and(|end| end <= bytes.len());
        if !is_within {
            return Err(refuse("the file does not hold all of its elements"));
        }
        let dense = dense_strides(shape);
        let is_dense = (shape.iter().zip(strides).zip(&dense))
            .all(|((&extent, stride), dense)| extent <= 1 || stride == dense);
        let content = if count == 0 {
            Bytes::new()
        } else if is_dense {
            bytes.slice(offset * width..(offset + count) * width)
        } else {
            self.charge((count * width) as u64)?;
            let mut gathered = Vec::with_capacity(count * width);
            for place in offsets(shape, strides) {
                let start = (offset + place) * width;
                gathered.extend_from_slice(&bytes[start..start + width]);
            }
            gathered.into()
        };
        if *dtype == DType::Bool && content.iter().any(|&byte| byte > 1) {
            return Err(refuse("a boolean is neither 0 nor 1"));
        }
        Tensor::from_bytes(*dtype, shape, content).map_err(refused)
    }
}

/// How a tensor's elements lie in memory, counted in elements.
pub(super) struct Strided {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) offset: usize,
}
