//! How the program is linked: where the system's loader knows packed relocations (glibc 2.36 on),
//! the 37,000 pointers of its tables take 30 kB instead of 880. A linker that does not know of
//! them says so and goes on. What is built for another system is left as it is.

use std::process::Command;

/// The first version of glibc that loads what is packed so.
const PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    let is_own = told("HOST") == told("TARGET") && told("CARGO_CFG_TARGET_ENV") == "gnu";
    if is_own && told("CARGO_CFG_TARGET_OS") == "linux" && glibc().is_some_and(|it| it >= PACKED) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library of this system.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let (major, minor) =
        str::from_utf8(&said).ok()?.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
