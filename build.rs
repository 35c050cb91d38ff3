//! Links the program without position independence, where that is known to work.
//!
//! A hit is over in about a millisecond, and of that a position-independent program spends a tenth on
//! relocating its tables: fifty pages that are copied and patched before `main`. Libraries, heap and
//! stack stay randomised.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("PROFILE", "release")
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
