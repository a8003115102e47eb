//! Archives of `torch.save`, in which programs before PyTorch 2.8 have their tensors: `data.pkl`
//! says what there is, members of the folder `data` hold the elements.
//!
//! Source: the opcodes of `pickletools` in CPython, protocol 2, as `torch.save` uses them. Nothing
//! of Python is run: the calls that build tensors and dictionaries are known by their names, and
//! what others would build stands for nothing.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use front::Accepted;
use tensor::DType;

use super::archive::{Archive, Strided, Tensors};
use super::schema::refused;

/// The tensors of a dictionary that `torch.save` wrote, by key.
pub(super) fn read(archive: &Archive, bytes: Bytes, name: &str) -> Accepted<Tensors> {
    let inner = archive.inner(bytes)?;
    let tensors = read_inner(&inner).map_err(|found| found.or_at(|| format!("member `{name}`")));
    archive.close(&inner);
    tensors
}

fn read_inner(archive: &Archive) -> Accepted<Tensors> {
    let name = archive.names().find(|name| *name == "data.pkl" || name.ends_with("/data.pkl"));
    let name = name.ok_or_else(|| refused("it is not what `torch.save` writes"))?.to_owned();
    let folder = name.strip_suffix("data.pkl").unwrap_or_default();
    let content = archive.content(&name)?;
    // A byte makes an object at most.
    archive.charge((content.len() as u64).saturating_mul(64))?;
    let root = Machine { code: &content, ..Machine::default() }.run()?;
    let Object::Dictionary(entries) = root else {
        return Err(refused("it is no dictionary of tensors"));
    };
    let mut contents: HashMap<String, Bytes> = HashMap::new();
    let mut tensors = Tensors::new();
    for (key, object) in entries {
        let Object::Tensor(storage, layout) = object else { continue };
        let path = format!("{folder}data/{storage}");
        if !contents.contains_key(&path) {
            contents.insert(path.clone(), archive.content(&path)?);
        }
        let tensor = archive.strided(&contents[&path], &layout);
        tensors.insert(key.clone(), tensor.map_err(|found| found.at(format!("tensor `{key}`")))?);
    }
    Ok(tensors)
}

/// An object of Python, as far as it matters.
#[derive(Clone, Default)]
enum Object {
    /// What is left alone.
    #[default]
    Other,
    Integer(i64),
    Text(String),
    List(Vec<Object>),
    Dictionary(BTreeMap<String, Object>),
    /// A class or a function by its name.
    Global(String),
    /// The member that holds elements of a type.
    Storage(String, DType),
    Tensor(String, std::rc::Rc<Strided>),
}

/// The machine that pickles are programs of.
#[derive(Default)]
struct Machine<'b> {
    code: &'b [u8],
    stack: Vec<Object>,
    /// Where the stack stood at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Object>,
}

/// The most objects that are copied out of the memo, members of lists counted.
const MOST_COPIES: usize = 1 << 22;

impl<'b> Machine<'b> {
    fn take(&mut self, count: usize) -> Accepted<&'b [u8]> {
        let taken = self.code.split_at_checked(count);
        let (taken, rest) = taken.ok_or_else(|| refused("`data.pkl` ends early"))?;
        self.code = rest;
        Ok(taken)
    }

    fn number(&mut self, width: usize) -> Accepted<u64> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn line(&mut self) -> Accepted<String> {
        let end = self.code.iter().position(|&byte| byte == b'\n');
        let line = self.take(end.ok_or_else(|| refused("`data.pkl` ends early"))?)?;
        self.take(1)?;
        text(line)
    }

    fn pop(&mut self) -> Accepted<Object> {
        let least = self.marks.last().copied().unwrap_or(0);
        let object = if self.stack.len() > least { self.stack.pop() } else { None };
        object.ok_or_else(|| refused("`data.pkl` takes what is not there"))
    }

    /// What stands above the last mark, which goes.
    fn pop_mark(&mut self) -> Accepted<Vec<Object>> {
        let mark = self.marks.pop();
        let mark = mark.ok_or_else(|| refused("`data.pkl` takes what is not there"))?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn run(mut self) -> Accepted<Object> {
        let mut copies = 0;
        loop {
            let opcode = self.take(1)?[0];
            let pushed = match opcode {
                b'.' => return self.pop(),
                // PROTO
                0x80 => {
                    self.take(1)?;
                    continue;
                }
                b'(' => {
                    self.marks.push(self.stack.len());
                    continue;
                }
                b'0' => {
                    self.pop()?;
                    continue;
                }
                b'1' => {
                    self.pop_mark()?;
                    continue;
                }
                b'q' | b'r' => {
                    let place = self.number(if opcode == b'q' { 1 } else { 4 })? as u32;
                    let top = self.stack.last().cloned().unwrap_or_default();
                    copies += top.size();
                    self.memo.insert(place, top);
                    continue;
                }
                b'h' | b'j' => {
                    let place = self.number(if opcode == b'h' { 1 } else { 4 })? as u32;
                    let found = self.memo.get(&place).cloned().unwrap_or_default();
                    copies += found.size();
                    found
                }
                b'N' => Object::Other,
                0x88 => Object::Integer(1),
                0x89 => Object::Integer(0),
                b'K' => Object::Integer(self.number(1)? as i64),
                b'M' => Object::Integer(self.number(2)? as i64),
                b'J' => Object::Integer(i64::from(self.number(4)? as i32)),
                b'G' => {
                    self.take(8)?;
                    Object::Other
                }
                // LONG1: two's complement of as many bytes as the first says.
                0x8a => {
                    let length = self.number(1)? as usize;
                    let bytes = self.take(length)?;
                    match bytes.len() {
                        0 => Object::Integer(0),
                        length @ 1..=8 => {
                            let sign = if bytes[length - 1] < 0x80 { 0 } else { 0xff };
                            let mut wide = [sign; 8];
                            wide[..length].copy_from_slice(bytes);
                            Object::Integer(i64::from_le_bytes(wide))
                        }
                        _ => Object::Other,
                    }
                }
                b'X' => {
                    let length = self.number(4)? as usize;
                    Object::Text(text(self.take(length)?)?)
                }
                b'U' => {
                    let length = self.number(1)? as usize;
                    Object::Text(text(self.take(length)?)?)
                }
                b'c' => Object::Global(format!("{}.{}", self.line()?, self.line()?)),
                b')' | b']' => Object::List(Vec::new()),
                b'}' => Object::Dictionary(BTreeMap::new()),
                b't' | b'l' => Object::List(self.pop_mark()?),
                0x85..=0x87 => {
                    let count = usize::from(opcode - 0x84);
                    let mut items = Vec::new();
                    for _ in 0..count {
                        items.push(self.pop()?);
                    }
                    items.reverse();
                    Object::List(items)
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item])?;
                    continue;
                }
                b'e' => {
                    let items = self.pop_mark()?;
                    self.append(items)?;
                    continue;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(vec![key, value])?;
                    continue;
                }
                b'u' => {
                    let items = self.pop_mark()?;
                    self.set(items)?;
                    continue;
                }
                // What BUILD adds to an object is of no consequence.
                b'b' => {
                    self.pop()?;
                    continue;
                }
                b'Q' => storage(&self.pop()?),
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    called(&function, arguments)?
                }
                _ => return Err(refused(format!("`data.pkl` has the opcode {opcode:#04x}"))),
            };
            if copies > MOST_COPIES {
                return Err(refused("`data.pkl` repeats itself too often"));
            }
            self.stack.push(pushed);
        }
    }

    fn append(&mut self, items: Vec<Object>) -> Accepted<()> {
        match self.stack.last_mut() {
            Some(Object::List(list)) => list.extend(items),
            Some(_) => {}
            None => return Err(refused("`data.pkl` takes what is not there")),
        }
        Ok(())
    }

    fn set(&mut self, items: Vec<Object>) -> Accepted<()> {
        match self.stack.last_mut() {
            Some(Object::Dictionary(entries)) => {
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    if let Object::Text(key) = key {
                        entries.insert(key, value);
                    }
                }
            }
            Some(_) => {}
            None => return Err(refused("`data.pkl` takes what is not there")),
        }
        Ok(())
    }
}

impl Object {
    /// About how many objects a copy makes.
    fn size(&self) -> usize {
        match self {
            Object::List(items) => 1 + items.iter().map(Object::size).sum::<usize>(),
            Object::Dictionary(entries) => 1 + entries.values().map(Object::size).sum::<usize>(),
            Object::Text(text) | Object::Global(text) => 1 + text.len() / 16,
            _ => 1,
        }
    }

    fn counts(&self) -> Option<Vec<usize>> {
        let Object::List(items) = self else { return None };
        items.iter().map(Object::count).collect()
    }

    fn count(&self) -> Option<usize> {
        let Object::Integer(number) = self else { return None };
        usize::try_from(*number).ok()
    }
}

fn text(bytes: &[u8]) -> Accepted<String> {
    let text = std::str::from_utf8(bytes).map_err(|error| refused(error.to_string()))?;
    Ok(text.to_owned())
}

/// `('storage', class, member, device, elements)`.
fn storage(id: &Object) -> Object {
    let Object::List(items) = id else { return Object::Other };
    match &items[..] {
        [Object::Text(_), Object::Global(class), Object::Text(member), ..] => {
            let class = class.rsplit('.').next().unwrap_or_default();
            let dtype = class.strip_suffix("Storage").and_then(dtype_of_class);
            dtype.map_or(Object::Other, |dtype| Object::Storage(member.clone(), dtype))
        }
        _ => Object::Other,
    }
}

fn dtype_of_class(class: &str) -> Option<DType> {
    Some(match class {
        "Byte" => DType::U8,
        "Char" => DType::I8,
        "Short" => DType::I16,
        "Int" => DType::I32,
        "Long" => DType::I64,
        "Half" => DType::F16,
        "Float" => DType::F32,
        "Double" => DType::F64,
        "Bool" => DType::Bool,
        "BFloat16" => DType::BF16,
        _ => return None,
    })
}

/// What a call builds.
fn called(function: &Object, arguments: Object) -> Accepted<Object> {
    let (Object::Global(name), Object::List(mut arguments)) = (function, arguments) else {
        return Ok(Object::Other);
    };
    Ok(match name.as_str() {
        "collections.OrderedDict" => Object::Dictionary(BTreeMap::new()),
        // `(data, requires_grad, hooks)`
        "torch._utils._rebuild_parameter" if !arguments.is_empty() => arguments.swap_remove(0),
        // `(storage, offset, size, strides, ..)`
        "torch._utils._rebuild_tensor_v2" => {
            let [Object::Storage(member, dtype), offset, shape, strides, ..] = &arguments[..]
            else {
                return Err(refused("a tensor is of a type that is not supported"));
            };
            let layout = (offset.count().zip(shape.counts()).zip(strides.counts())).map(
                |((offset, shape), strides)| Strided { dtype: *dtype, shape, strides, offset },
            );
            let layout = layout.ok_or_else(|| refused("the extents of a tensor are no sizes"))?;
            Object::Tensor(member.clone(), std::rc::Rc::new(layout))
        }
        _ => Object::Other,
    })
}
