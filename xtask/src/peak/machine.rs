//! What the operating system says about this machine: its name, caches, cores and load.
//!
//! Everything comes from `/proc` and `/sys`; what cannot be read is said to be unknown, and cache
//! sizes fall back to those of a common server core.

use std::fs::read_to_string;

/// The machine as far as figures depend on it.
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) features: Vec<&'static str>,
    /// Threads that this process may run at once.
    pub(super) threads: usize,
    /// The load average over the last minute, before measuring.
    pub(super) load: String,
    pub(super) l1_bytes: usize,
    pub(super) l2_bytes: usize,
    pub(super) last_bytes: usize,
}

/// A level of the memory hierarchy, and a buffer size that lives in it.
pub(super) struct Level {
    pub(super) key: &'static str,
    pub(super) what: &'static str,
    pub(super) bytes: usize,
}

impl Machine {
    pub(super) fn read() -> Machine {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let load = read_to_string("/proc/loadavg").unwrap_or_default();
        let mut machine = Machine {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            features: features(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
            l1_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            last_bytes: 32 << 20,
        };
        for index in 0..8 {
            let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
            let entry = |name: &str| read_to_string(format!("{folder}/{name}")).ok();
            let (Some(level), Some(kind), Some(size)) =
                (entry("level"), entry("type"), entry("size"))
            else {
                break;
            };
            let Some(bytes) = cache_size(size.trim()) else { continue };
            match (level.trim(), kind.trim()) {
                (_, "Instruction") => {}
                ("1", _) => machine.l1_bytes = bytes,
                ("2", _) => (machine.l2_bytes, machine.last_bytes) = (bytes, bytes.max(32 << 20)),
                _ => machine.last_bytes = bytes,
            }
        }
        machine
    }

    /// What to read to measure each level: half of a cache, or eight times the last one.
    pub(super) fn memory_levels(&self) -> [Level; 3] {
        let level = |key, what, bytes| Level { key, what, bytes };
        [
            level("l1_read", "reads from half the first-level cache", self.l1_bytes / 2),
            level("l2_read", "reads from half the second-level cache", self.l2_bytes / 2),
            level("dram_read", "reads from memory, 8 x the last cache", self.last_bytes * 8),
        ]
    }
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// `32K`, `1M` as bytes.
fn cache_size(text: &str) -> Option<usize> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let scale = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    Some(digits.parse::<usize>().ok()? * scale)
}

fn features() -> Vec<&'static str> {
    use std::arch::is_x86_feature_detected as has;
    let all = [
        ("avx2", has!("avx2")),
        ("fma", has!("fma")),
        ("f16c", has!("f16c")),
        ("avxvnni", has!("avxvnni")),
        ("avx512f", has!("avx512f")),
        ("avx512bw", has!("avx512bw")),
        ("avx512dq", has!("avx512dq")),
        ("avx512vl", has!("avx512vl")),
        ("avx512vnni", has!("avx512vnni")),
        ("avx512bf16", has!("avx512bf16")),
        ("avx512fp16", has!("avx512fp16")),
    ];
    all.iter().filter(|(_, present)| *present).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_read() {
        assert_eq!(field("a : b\nmodel name\t: X 1: y\n", "model name"), Some("X 1: y"));
        assert_eq!(cache_size("32K"), Some(32768));
        assert_eq!(cache_size("2M"), Some(2 << 20));
        assert_eq!((cache_size("32"), cache_size("5X")), (None, None));
    }
}
