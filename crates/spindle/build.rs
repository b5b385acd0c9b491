//! How the program is linked where it is tested.

#![allow(
    clippy::disallowed_methods,
    reason = "cargo tells a build script what it builds by its environment"
)]

/// The tests start the program some thousand times, and a program that may lie anywhere in memory writes each of its hundred
/// thousand addresses anew at each start. So the one that is tested lies at one place. What is released lies anywhere.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is =
        |variable: &str, value: &str| std::env::var(variable).is_ok_and(|found| found == value);
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
