//! Which targets a machine can run. What the machine has is asked of the caller, so that this stays
//! a function of its arguments.

use base::Diagnostic;
use base::codes::{TARGET_NOT_ON_THIS_MACHINE, UNKNOWN_TARGET};
use base::remedies::{WRITE_C, use_instead};

use crate::machine::Machine;
use crate::target::{Isa, Target};

impl Isa {
    /// The processor features that its code uses, by the names that Rust gives them.
    #[must_use]
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Isa::X86Avx512Bf16 => &[
                "avx2",
                "fma",
                "f16c",
                "bmi1",
                "bmi2",
                "lzcnt",
                "popcnt",
                "avx512f",
                "avx512bw",
                "avx512cd",
                "avx512dq",
                "avx512vl",
                "avx512vbmi",
                "avx512vnni",
                "avx512bf16",
            ],
            Isa::X86Avx512 => &[
                "avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "popcnt", "avx512f", "avx512bw",
                "avx512cd", "avx512dq", "avx512vl",
            ],
            Isa::X86Avx2 => &["avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "popcnt"],
            Isa::C99 | Isa::ArmDsp | Isa::ArmHelium => &[],
        }
    }

    /// Whether it is machine code, which can be run in process.
    #[must_use]
    pub fn is_machine_code(self) -> bool {
        match self {
            Isa::X86Avx512Bf16 | Isa::X86Avx512 | Isa::X86Avx2 => true,
            Isa::C99 | Isa::ArmDsp | Isa::ArmHelium => false,
        }
    }

    /// Whether it has AVX-512's registers and masks.
    #[must_use]
    pub fn has_avx512(self) -> bool {
        match self {
            Isa::X86Avx512Bf16 | Isa::X86Avx512 => true,
            Isa::X86Avx2 | Isa::C99 | Isa::ArmDsp | Isa::ArmHelium => false,
        }
    }
}

impl Target {
    /// The best row whose code a machine with these features can run in process, if there is one.
    #[must_use]
    pub fn native(has_feature: &dyn Fn(&str) -> bool) -> Option<Target> {
        // Rows are sorted from the best down.
        Target::table()
            .into_iter()
            .find(|row| row.isa.is_machine_code() && row.missing(has_feature).is_empty())
    }

    /// The same instructions for a processor as it describes itself: its caches, from the first
    /// level to the third, whether its data paths are as wide as its widest vectors, and whether a
    /// mesh joins its cores. What the processor does not tell is the row's. It has a name of its
    /// own, since code for it may be another than that for the row; the bits that both compute are
    /// the same.
    #[must_use]
    pub fn tuned(self, caches: [Option<u64>; 3], full_width: Option<bool>, mesh: bool) -> Target {
        let core = match self.isa.has_avx512() {
            true if mesh => Machine::mesh_server(),
            true if full_width == Some(false) => self.machine.at_half_width(),
            _ => self.machine,
        };
        let machine = core.with_caches(caches);
        Target { name: format!("native ({})", self.name), machine, ..self }
    }

    /// The row of a name.
    ///
    /// # Errors
    /// `TW0401`, with the names that there are.
    pub fn find(name: &str) -> base::Result<Target> {
        Target::named(name).ok_or_else(|| {
            let rows = Target::table().into_iter().map(|row| row.name);
            let names: Vec<String> = std::iter::once("native".to_owned()).chain(rows).collect();
            let known = names.iter().map(String::as_str);
            Diagnostic::error(UNKNOWN_TARGET, format!("no target is called `{name}`"))
                .at(format!("--target {name}"))
                .because(format!("the targets are {}", names.join(", ")))
                .remedy(use_instead(name, known, |near| format!("--target {near}")))
                .into()
        })
    }

    /// Checks that a machine with these features can run the target's code.
    ///
    /// # Errors
    /// `TW0402`, with all features that it lacks, or because the target has no machine code.
    pub fn check_machine(&self, has_feature: &dyn Fn(&str) -> bool) -> base::Result<()> {
        if !self.isa.is_machine_code() {
            let message = format!("target `{}` cannot be run in process", self.name);
            return Err(Diagnostic::error(TARGET_NOT_ON_THIS_MACHINE, message)
                .at(format!("--target {}", self.name))
                .because("it stands for sources, not for machine code")
                .remedy(format!("leave the target out, or {WRITE_C}"))
                .into());
        }
        let missing = self.missing(has_feature);
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!("this machine cannot run code for `{}`", self.name);
        let remedy = match Target::native(has_feature) {
            Some(native) => format!("use `--target {}`", native.name),
            None => WRITE_C.to_owned(),
        };
        Err(Diagnostic::error(TARGET_NOT_ON_THIS_MACHINE, message)
            .because(format!("it lacks {}", missing.join(", ")))
            .remedy(remedy)
            .into())
    }

    fn missing(&self, has_feature: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
        let features = self.isa.features().iter().copied();
        features.filter(|feature| !has_feature(feature)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction::Instruction;

    #[test]
    fn the_best_target_that_runs() {
        let native = |has: &dyn Fn(&str) -> bool| Target::native(has).map(|row| row.name);
        assert_eq!(native(&|_| true).as_deref(), Some("x86-64-v4-bf16"));
        assert_eq!(native(&|name| name != "avx512bf16").as_deref(), Some("x86-64-v4"));
        assert_eq!(native(&|name| !name.starts_with("avx512")).as_deref(), Some("x86-64-v3"));
        assert_eq!(native(&|name| name != "avx512vl").as_deref(), Some("x86-64-v3"));
        assert_eq!(native(&|name| name != "fma"), None);
    }

    #[test]
    fn what_a_processor_tells_replaces_what_the_row_says() {
        let row = Target::named("x86-64-v4").expect("a row");
        let tuned = row.clone().tuned([Some(48 << 10), None, Some(0)], Some(false), false);
        assert_eq!(tuned.name, "native (x86-64-v4)");
        assert_eq!(tuned.machine.l1.bytes, 48 << 10);
        assert_eq!(tuned.machine.l2, row.machine.l2);
        assert_eq!(tuned.machine.l3, row.machine.l3);
        assert!((tuned.machine.passes - 2.0 * row.machine.passes).abs() < 1e-9);
        assert_eq!(tuned.for_formats().machine, row.machine);
        let mesh = row.clone().tuned([None; 3], None, true);
        assert_eq!(mesh.machine, Machine::mesh_server());
        assert_eq!(mesh.for_formats().machine, row.machine);
        // Costs of its own are of instructions that there are.
        for (name, cost) in mesh.machine.costs {
            let row = Instruction::named(name).expect("a row of the table");
            let target = Target { isa: Isa::X86Avx512Bf16, ..mesh.clone() };
            assert_eq!(target.cost_of(row), Some(*cost));
        }
        let narrow = Target::named("x86-64-v3").expect("a row");
        assert_eq!(narrow.clone().tuned([None; 3], None, true).machine, narrow.machine);
        assert_eq!(narrow.clone().tuned([None; 3], Some(false), false).machine, narrow.machine);
    }

    #[test]
    fn a_target_that_does_not_run_names_one_that_does() {
        let v4 = Target::named("x86-64-v4").expect("a row");
        assert_eq!(v4.check_machine(&|_| true), Ok(()));
        let old = |name: &str| !name.starts_with("avx512") || name == "avx512f";
        let text = v4.check_machine(&old).expect_err("not there").to_string();
        let expected = "error[TW0402]: this machine cannot run code for `x86-64-v4`
  = because: it lacks avx512bw, avx512cd, avx512dq, avx512vl
  = remedy: use `--target x86-64-v3`";
        assert_eq!(text, expected);
        let text = v4.check_machine(&|_| false).expect_err("not there").to_string();
        assert!(
            text.ends_with("= remedy: use `tilewright compile MODEL -o c-sources --emit c`"),
            "{text}"
        );
    }
}
