//! What `-march=native` means on this machine.

use crate::digest::Digest;

/// Identifies the CPU as far as a compiler can see it: architecture, model and feature flags.
pub fn cpu_identity() -> Digest {
    // One logical CPU stands for all; the other lines (frequency, APIC ids) change by the minute.
    const TELLING: &[&str] = &[
        "vendor_id",
        "cpu family",
        "model",
        "stepping",
        "flags",
        "CPU implementer",
        "CPU part",
        "CPU variant",
        "Features",
    ];
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let first = cpuinfo.split("\n\n").next().unwrap_or_default();
    let mut identity = std::env::consts::ARCH.to_owned();
    for line in first.lines() {
        let name = line.split(':').next().unwrap_or_default().trim();
        if TELLING.contains(&name) {
            identity.push('\n');
            identity.push_str(line);
        }
    }
    Digest::of(identity)
}
