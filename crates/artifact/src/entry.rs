//! What callers of an artifact call: procedures that take the caller's arguments, check the memory,
//! and run a program.

use backend::procedure::{Action, Callee, Procedure, Word, WordOperator};
use backend_c::Interface;
use program::Fault;

use crate::words::ProcedureWriter;

/// Where in the caller's arguments each stands.
pub(crate) mod field {
    pub(crate) const WEIGHTS: i64 = 0;
    pub(crate) const CONSTANTS: i64 = 8;
    pub(crate) const ARENA: i64 = 16;
    pub(crate) const ARENA_BYTES: i64 = 24;
    pub(crate) const INPUTS: i64 = 32;
    pub(crate) const OUTPUTS: i64 = 40;
    /// `parallel_for`, its pool and the number of workers stand before.
    pub(crate) const EXTENTS: i64 = 72;
}

/// The memory alignment that callers are asked for.
pub(crate) const ALIGNMENT: i64 = 64;

/// What the code of a model knows of its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Bases {
    /// Where weights are: a symbol of the artifact, or what the caller gives.
    pub(crate) weights: Option<String>,
    /// Where the block of constants is.
    pub(crate) constants: Option<String>,
}

impl Bases {
    pub(crate) fn words(&self, arguments: &Word) -> [Word; 2] {
        let of = |symbol: &Option<String>, field: i64| match symbol {
            Some(name) => Word::Symbol(name.clone()),
            None => (arguments.clone() + field).load(),
        };
        [of(&self.weights, field::WEIGHTS), of(&self.constants, field::CONSTANTS)]
    }
}

/// The procedure that callers call to run a program of known sizes: the symbol of that, the bytes
/// of its arena and of each worker's memory. `values` are symbols of the values that inputs must
/// have.
pub(crate) fn entry(
    name: String,
    program: &str,
    [arena_bytes, worker_bytes]: [u64; 2],
    bases: &Bases,
    interface: &Interface,
    values: &[Option<String>],
) -> Procedure {
    let mut writer = ProcedureWriter::new(name, &["arguments"]);
    writer.procedure.is_exported = true;
    let arguments = writer.parameter(0);
    check_values(&mut writer, &arguments, interface, values);
    let workers =
        writer.call(Callee::Procedure("tilewright.workers".to_owned()), vec![arguments.clone()]);
    let start = writer.local("start", (arguments.clone() + field::ARENA).load());
    let arena = aligned(start.into());
    let arena = writer.local("arena", arena);
    let arena_bytes = arena_bytes.next_multiple_of(ALIGNMENT.cast_unsigned()).cast_signed();
    let memory = writer.local("memory", Word::from(arena) + arena_bytes);
    let needed = Word::binary(
        WordOperator::SaturatingMultiply,
        workers.into(),
        worker_bytes.cast_signed().into(),
    );
    let needed =
        Word::binary(WordOperator::SaturatingAdd, needed, Word::from(memory) - start.into());
    let given = (arguments.clone() + field::ARENA_BYTES).load();
    writer.fault_if(given.less(needed), Fault::TooLittleMemory);
    let turns = writer.procedure.area("turns", 8);
    writer.store(turns.into(), 0);
    let [weights, constants] = bases.words(&arguments);
    let words = vec![
        arguments.clone(),
        weights,
        constants,
        arena.into(),
        memory.into(),
        workers.into(),
        (arguments.clone() + field::INPUTS).load(),
        (arguments + field::OUTPUTS).load(),
        turns.into(),
    ];
    writer.checked_call(Callee::Procedure(program.to_owned()), words);
    writer.push(Action::Return(0.into()));
    writer.finish()
}

/// An address, rounded up to the alignment of memory.
pub(crate) fn aligned(address: Word) -> Word {
    Word::binary(WordOperator::And, address + (ALIGNMENT - 1), (-ALIGNMENT).into())
}

/// Refuses values of inputs that the code is not for.
pub(crate) fn check_values(
    writer: &mut ProcedureWriter,
    arguments: &Word,
    interface: &Interface,
    values: &[Option<String>],
) {
    for (number, (port, symbol)) in interface.inputs.iter().zip(values).enumerate() {
        let (Some(value), Some(symbol)) = (&port.value, symbol) else { continue };
        let inputs = (arguments.clone() + field::INPUTS).load();
        let given = (inputs + 8 * number as i64).load();
        let bytes = (value.bytes().len() as i64).into();
        let words = vec![given, Word::Symbol(symbol.clone()), bytes];
        let same = writer.call(Callee::Procedure("tilewright.same".to_owned()), words);
        writer.fault_if(Word::from(same).equal(0), Fault::OtherValue);
    }
}
