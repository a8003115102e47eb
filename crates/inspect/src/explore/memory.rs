//! The memory plan of a segment: which value lies where in the arena, from which step to which.

use std::collections::BTreeMap;

use base::Id;
use graph::type_text;
use program::{SlotId, Step};
use serde_json::{Value, json};
use tilewright::compiled::{KernelInfo, Specialisation};

/// The slots of the arena, by their numbers in the program, and how many steps there are.
pub(super) fn plan(specialisation: &Specialisation) -> Value {
    let program = specialisation.program();
    let mut steps = 0;
    program::walk(&program.steps, &mut |_| steps += 1);
    let values = values(specialisation);
    let slot = |it: &tilewright::compiled::ArenaSlot| {
        let unknown = || (program.slots[it.slot].name.clone(), String::new());
        let (name, ty) = values.get(&it.slot).cloned().unwrap_or_else(unknown);
        json!({
            "slot": it.slot.index(),
            "value": name,
            "type": ty,
            "offset": it.offset,
            "bytes": it.bytes,
            "first": it.first,
            "last": it.last,
        })
    };
    let slots: Vec<Value> = specialisation.arena_slots().iter().map(slot).collect();
    json!({
        "arena_bytes": specialisation.executable().arena_bytes(),
        "largest_live_set": specialisation.largest_live_set(),
        "steps": steps,
        "slots": slots,
    })
}

/// The name and type of the value in each slot that a kernel is given whole: the first there.
fn values(specialisation: &Specialisation) -> BTreeMap<SlotId, (String, String)> {
    let lowered = specialisation.lowered();
    let program = specialisation.program();
    let mut infos: Vec<&KernelInfo> = lowered.kernels.iter().rev().collect();
    let (mut found, mut named) = (BTreeMap::new(), BTreeMap::new());
    program::walk(&program.steps, &mut |step| {
        let Step::Run(run) = step else { return };
        // Runs without an entry count for loops.
        let Some(info) = infos.pop_if(|info| info.kernel == run.kernel) else { return };
        let function = match info.source.region {
            Some(region) => &lowered.regions[region].function,
            None => &lowered.function,
        };
        let names = named.entry(info.source.region).or_insert_with(|| function.value_texts());
        for (argument, &value) in run.arguments.iter().zip(&info.source.arguments) {
            let data = &function.values[value];
            let number = || names.get(&value).cloned().unwrap_or_default();
            let name = data.name.as_ref().map_or_else(number, |name| name.to_string());
            let ty = type_text(&data.ty, &|symbol| function.symbol_name(symbol)).to_string();
            found.entry(argument.address.slot).or_insert((name, ty));
        }
    });
    found
}
