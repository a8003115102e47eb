//! Which values share memory, so that nodes that write in place become nodes that do not.
//!
//! A graph as `torch.export.export` leaves it has operators like `add_`, which change their first
//! operand. Here such a node makes a new version of a *tensor*: who reads one of its names from
//! then on reads the version. What it is a slice of changes, too: it is put together anew, slice by
//! slice. What else shares memory with it is not followed, so those tensors are stale from then on,
//! and who reads one is refused. `run_decompositions()` leaves no such nodes.

use std::collections::HashMap;

use base::{Diagnostic, codes};
use front::Accepted;

use super::schema::refused;
use crate::trace::{Declared, TraceArgument, TraceNode};

/// Operators whose results may share memory with their first operand: those that PyTorch's
/// signatures say it of, and those that may return it as it is.
const VIEWS: &str = "\
    _conj _neg_view _reshape_alias _unsafe_view adjoint alias alpha_dropout as_strided \
    atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to chunk conj conj_physical \
    contiguous cpu detach diagonal dropout dsplit einsum expand expand_as \
    feature_alpha_dropout feature_dropout flatten hsplit imag lift lift_fresh linalg_diagonal \
    matrix_H meshgrid mH moveaxis movedim mT narrow numpy_T permute pin_memory positive ravel \
    real reshape reshape_as resolve_conj resolve_neg rot90 select slice split split_with_sizes \
    squeeze sum_to_size swapaxes swapdims t tensor_split tile to transpose type_as unbind \
    unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze view view_as \
    view_as_complex view_as_real vsplit";

/// A tensor of PyTorch: what it is called in the trace by now.
struct Version {
    value: String,
    /// Tensors of one number may share memory.
    group: usize,
    /// The node that wrote to memory that it may share.
    written_by: Option<String>,
    /// What it is a slice of, if it is one.
    slice: Option<Slice>,
}

/// How a tensor is a slice of another.
struct Slice {
    of: usize,
    /// The type of that.
    ty: Declared,
    /// The operator that puts a slice into a value, with the arguments behind those two.
    scatter: &'static str,
    arguments: Vec<TraceArgument>,
    named: Vec<(String, TraceArgument)>,
}

/// The operator that puts in what another takes out, with the same arguments.
fn scatter_of(operator: &str) -> Option<&'static str> {
    match operator {
        "aten.slice.Tensor" => Some("aten.slice_scatter.default"),
        "aten.select.int" => Some("aten.select_scatter.default"),
        _ => None,
    }
}

/// The tensors, by the names that the graph has for them.
#[derive(Default)]
pub(super) struct Versions {
    names: HashMap<String, usize>,
    versions: Vec<Version>,
}

/// What a node does with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Its results have memory of their own.
    Fresh,
    /// Its results may share that of its first operand.
    View,
    /// It changes its first operand, as the operator of this name computes it.
    Write(String),
    /// It changes how its first operand is seen, as the operator of this name does.
    Turn(String),
}

/// What an operator, such as `aten.add_.Tensor`, does with memory.
pub(super) fn effect(operator: &str) -> Effect {
    let (qualified, overload) = operator.rsplit_once('.').unwrap_or((operator, ""));
    let name = qualified.rsplit('.').next().unwrap_or(qualified);
    let is_view = |name: &str| VIEWS.split(' ').any(|view| view == name);
    match name.strip_suffix('_').filter(|name| !name.ends_with('_')) {
        Some(plain) => {
            let functional = format!("{}.{overload}", &qualified[..qualified.len() - 1]);
            // A dropout changes elements, unless it is off.
            match is_view(plain) && !plain.ends_with("dropout") {
                true => Effect::Turn(functional),
                false => Effect::Write(functional),
            }
        }
        None if is_view(name) => Effect::View,
        None => Effect::Fresh,
    }
}

impl Versions {
    fn add(&mut self, name: String, value: String, group: usize) -> Accepted<()> {
        if self.names.contains_key(&name) {
            let message = format!("two values are called `{name}`");
            return Err(Diagnostic::error(codes::DUPLICATE_NAME, message)
                .because("each value of a graph has a name of its own")
                .remedy("write it anew with `torch.export.save`"));
        }
        self.names.insert(name, self.versions.len());
        self.versions.push(Version { value, group, written_by: None, slice: None });
        Ok(())
    }

    /// A value with memory of its own.
    pub(super) fn define(&mut self, name: &str) -> Accepted<()> {
        self.add(name.to_owned(), name.to_owned(), self.versions.len())
    }

    /// A value that may share memory with another.
    pub(super) fn define_view(&mut self, name: &str, of: &str) -> Accepted<()> {
        let group = self.versions[self.place(of)?].group;
        self.add(name.to_owned(), name.to_owned(), group)
    }

    /// Another name of a value.
    pub(super) fn rename(&mut self, name: &str, of: &str) -> Accepted<()> {
        let place = self.place(of)?;
        self.add(name.to_owned(), String::new(), 0)?;
        self.names.insert(name.to_owned(), place);
        Ok(())
    }

    /// Takes note that a view is what this call takes out of a value of this type.
    pub(super) fn note_slice(
        &mut self,
        view: &str,
        call: &TraceNode,
        ty: Declared,
    ) -> Accepted<()> {
        let (Some(scatter), Some((TraceArgument::Value(_), arguments))) =
            (scatter_of(&call.operator), call.arguments.split_first())
        else {
            return Ok(());
        };
        let place = self.place(view)?;
        let group = self.versions[place].group;
        let Some(TraceArgument::Value(source)) = call.arguments.first() else { return Ok(()) };
        let of = (0..place).rev().find(|&other| {
            let version = &self.versions[other];
            version.group == group && version.value == *source
        });
        let (arguments, named) = (arguments.to_vec(), call.named.clone());
        self.versions[place].slice = of.map(|of| Slice { of, ty, scatter, arguments, named });
        Ok(())
    }

    /// A node of this result, which writes to a value; the nodes behind it which put that into what
    /// the value is a slice of.
    pub(super) fn write(&mut self, result: &str, to: &str) -> Accepted<Vec<TraceNode>> {
        let place = self.place(to)?;
        self.rename(result, to)?;
        self.versions[place].value = result.to_owned();
        let (mut followed, mut behind) = (vec![place], Vec::new());
        while let Some(slice) = &self.versions[followed[followed.len() - 1]].slice {
            let own = &self.versions[followed[followed.len() - 1]].value;
            let name = format!("{result}.whole{}", behind.len());
            let values = [&self.versions[slice.of].value, own].map(String::clone);
            let values = values.map(TraceArgument::Value).into_iter();
            behind.push(TraceNode {
                name: name.clone(),
                types: vec![Some(slice.ty.clone())],
                is_list: false,
                operator: slice.scatter.to_owned(),
                arguments: values.chain(slice.arguments.iter().cloned()).collect(),
                named: slice.named.clone(),
            });
            let of = slice.of;
            self.versions[of].value = name;
            followed.push(of);
        }
        let group = self.versions[place].group;
        for (other, version) in self.versions.iter_mut().enumerate() {
            if version.group == group && !followed.contains(&other) {
                version.written_by = Some(result.to_owned());
            }
        }
        Ok(behind)
    }

    /// A node of this result, which is a view that takes the place of a value.
    pub(super) fn turn(&mut self, result: &str, of: &str) -> Accepted<()> {
        self.define_view(result, of)?;
        let place = self.place(result)?;
        self.names.insert(of.to_owned(), place);
        Ok(())
    }

    fn place(&self, name: &str) -> Accepted<usize> {
        self.names.get(name).copied().ok_or_else(|| {
            Diagnostic::error(codes::UNDEFINED_NAME, format!("no value is called `{name}`"))
                .because("a node reads what stands before it")
                .remedy("write the program anew with `torch.export.save`")
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// What a name stands for in the trace by now.
    pub(super) fn read(&self, name: &str) -> Accepted<&str> {
        let version = &self.versions[self.place(name)?];
        match &version.written_by {
            None => Ok(&version.value),
            Some(node) => {
                Err(refused(format!("node `{node}` writes to memory that `{name}` may share"))
                    .remedy("call `run_decompositions()` on the program before it is saved"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        let names: Vec<String> = VIEWS.split(' ').map(str::to_lowercase).collect();
        assert!(names.is_sorted() && names.iter().all(|name| !name.is_empty()), "sort it");
    }

    #[test]
    fn effects_follow_from_names() {
        assert_eq!(effect("aten.add.Tensor"), Effect::Fresh);
        assert_eq!(effect("aten.__and__.Tensor"), Effect::Fresh);
        assert_eq!(effect("aten.view.default"), Effect::View);
        assert_eq!(effect("aten.add_.Tensor"), Effect::Write("aten.add.Tensor".to_owned()));
        assert_eq!(effect("aten.dropout_.default"), Effect::Write("aten.dropout.default".into()));
        assert_eq!(effect("aten.detach_.default"), Effect::Turn("aten.detach.default".to_owned()));
    }

    #[test]
    fn a_write_to_a_slice_is_put_into_the_whole() {
        let mut versions = Versions::default();
        versions.define("a").unwrap();
        versions.define_view("b", "a").unwrap();
        versions.define_view("c", "a").unwrap();
        let ty = Declared {
            dtype: tensor::DType::F32,
            is_complex: false,
            shape: vec![4.into()],
            strides: None,
        };
        let call = TraceNode {
            name: "b".to_owned(),
            types: Vec::new(),
            is_list: false,
            operator: "aten.slice.Tensor".to_owned(),
            arguments: vec![TraceArgument::Value("a".to_owned()), TraceArgument::Bool(true)],
            named: Vec::new(),
        };
        versions.note_slice("b", &call, ty.clone()).unwrap();
        let behind = versions.write("b1", "b").unwrap();
        let value = |name: &str| TraceArgument::Value(name.to_owned());
        assert_eq!(behind.len(), 1);
        assert_eq!(behind[0].operator, "aten.slice_scatter.default");
        assert_eq!(behind[0].arguments, [value("a"), value("b1"), TraceArgument::Bool(true)]);
        assert_eq!(versions.read("a").unwrap(), behind[0].name);
        assert_eq!(versions.read("b").unwrap(), "b1");
        assert!(versions.read("c").is_err());
        // A view that is no slice leaves the whole stale.
        versions.define_view("d", "a").unwrap();
        assert!(versions.write("d1", "d").unwrap().is_empty());
        assert!(versions.read("a").is_err() && versions.read("b").is_err());
    }

    #[test]
    fn writes_make_versions_and_views_stale() {
        let mut versions = Versions::default();
        versions.define("a").unwrap();
        versions.define_view("b", "a").unwrap();
        versions.define("c").unwrap();
        versions.write("a1", "a").unwrap();
        assert_eq!(versions.read("a").unwrap(), "a1");
        assert_eq!(versions.read("a1").unwrap(), "a1");
        assert_eq!(versions.read("c").unwrap(), "c");
        let found = versions.read("b").unwrap_err();
        assert!(found.to_string().contains("run_decompositions()"), "{found}");
        versions.define_view("d", "a").unwrap();
        versions.turn("d1", "d").unwrap();
        assert_eq!(versions.read("d").unwrap(), "d1");
        versions.write("d2", "d").unwrap();
        assert_eq!(versions.read("d").unwrap(), "d2");
        assert!(versions.read("a").is_err());
        assert!(versions.define("a").is_err());
        assert!(versions.read("x").is_err() && versions.write("y", "x").is_err());
    }
}
