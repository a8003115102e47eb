//! JSON as PyTorch's schema has it (`torch/_export/serde/schema.py`, version 8): fields, and unions
//! as objects with one field, whose name is the case.

use base::{Diagnostic, codes};
use front::Accepted;
use serde_json::Value as Json;
use tensor::DType;

/// The refusal of an archive that does not hold what it should.
#[cold]
#[inline(never)]
pub(super) fn refused(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::NOT_EXPORTED, "the exported program cannot be read")
        .because(reason)
        .remedy("write it anew with `torch.export.save`, or copy the file again")
}

/// The element type of a number of the schema.
pub(super) fn dtype_of(number: i64) -> Accepted<DType> {
    Ok(match number {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::Bool,
        13 => DType::BF16,
        28 => DType::U16,
        29 => DType::F8E4M3FN,
        30 => DType::F8E5M2,
        31 => DType::F8E4M3FNUZ,
        32 => DType::F8E5M2FNUZ,
        33 => DType::F8E8M0,
        34 => DType::U32,
        35 => DType::U64,
        _ => {
            let name = match number {
                9..=11 => "a complex element type".to_owned(),
                _ => format!("the element type of number {number}"),
            };
            return Err(unsupported_type(&format!("{name} is not supported")));
        }
    })
}

/// The element type of a number of the schema, or that of the parts of complex numbers, and whether
/// it is the latter.
pub(super) fn element_of(number: i64) -> Accepted<(DType, bool)> {
    Ok(match number {
        10 => (DType::F32, true),
        11 => (DType::F64, true),
        _ => (dtype_of(number)?, false),
    })
}

/// The refusal of a value of a kind that there is no form for.
pub(super) fn unsupported_type(reason: &str) -> Diagnostic {
    Diagnostic::error(codes::UNSUPPORTED_TYPE, "a value of the program cannot be compiled")
        .because(reason)
        .remedy("export the model without it")
}

/// A value of the file, and what it is called in refusals.
#[derive(Clone, Copy)]
pub(super) struct Reader<'j> {
    json: &'j Json,
    name: &'j str,
}

impl<'j> Reader<'j> {
    pub(super) fn new(json: &'j Json, name: &'j str) -> Reader<'j> {
        Reader { json, name }
    }

    /// As it stands in the file.
    pub(super) fn json(&self) -> &'j Json {
        self.json
    }

    fn is_no(&self, what: &str) -> Diagnostic {
        refused(format!("`{}` is no {what}", self.name))
    }

    /// A field, unless it is missing or null.
    pub(super) fn optional(&self, name: &'j str) -> Accepted<Option<Reader<'j>>> {
        let fields = self.json.as_object().ok_or_else(|| self.is_no("object"))?;
        let found = fields.get(name).filter(|json| !json.is_null());
        Ok(found.map(|json| Reader { json, name }))
    }

    pub(super) fn field(&self, name: &'j str) -> Accepted<Reader<'j>> {
        let missing = || refused(format!("`{}` has no field `{name}`", self.name));
        self.optional(name)?.ok_or_else(missing)
    }

    /// The fields with their names.
    pub(super) fn entries(
        &self,
    ) -> Accepted<impl Iterator<Item = (&'j str, Reader<'j>)> + use<'j>> {
        let fields = self.json.as_object().ok_or_else(|| self.is_no("object"))?;
        Ok(fields.iter().map(|(name, json)| (name.as_str(), Reader { json, name })))
    }

    /// The case of a union and its value.
    pub(super) fn case(&self) -> Accepted<(&'j str, Reader<'j>)> {
        let mut given = self.entries()?.filter(|(_, it)| !it.json.is_null());
        let (first, second) = (given.next(), given.next());
        let case = first.filter(|_| second.is_none());
        case.ok_or_else(|| self.is_no("object with one field"))
    }

    pub(super) fn items(&self) -> Accepted<impl Iterator<Item = Reader<'j>> + use<'j>> {
        let name = self.name;
        let items = self.json.as_array().ok_or_else(|| self.is_no("list"))?;
        Ok(items.iter().map(move |json| Reader { json, name }))
    }

    pub(super) fn text(&self) -> Accepted<&'j str> {
        self.json.as_str().ok_or_else(|| self.is_no("text"))
    }

    pub(super) fn flag(&self) -> Accepted<bool> {
        self.json.as_bool().ok_or_else(|| self.is_no("boolean"))
    }

    pub(super) fn integer(&self) -> Accepted<i64> {
        self.json.as_i64().ok_or_else(|| self.is_no("integer of 64 bits"))
    }

    /// A float; those that JSON has no numbers for are words.
    pub(super) fn float(&self) -> Accepted<f64> {
        match self.json.as_str() {
            Some("Infinity") => Ok(f64::INFINITY),
            Some("-Infinity") => Ok(f64::NEG_INFINITY),
            Some("NaN") => Ok(f64::NAN),
            Some(_) => Err(self.is_no("number")),
            None => self.json.as_f64().ok_or_else(|| self.is_no("number")),
        }
    }

    /// A size that is a number: an integer, or a union's integer.
    pub(super) fn count(&self) -> Accepted<usize> {
        let number = match self.json.is_object() {
            true => self.field("as_int")?.integer()?,
            false => self.integer()?,
        };
        usize::try_from(number).map_err(|_| self.is_no("size"))
    }

    pub(super) fn counts(&self) -> Accepted<Vec<usize>> {
        self.items()?.map(|it| it.count()).collect()
    }
}
