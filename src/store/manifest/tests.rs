use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::step::material::Value;
use crate::toolchain::FileIdentity;

/// Text with everything that TOML or the manifest's own form might stumble over.
fn text() -> impl Strategy<Value = String> {
    let hostile = prop_oneof![
        Just(RECORD),
        Just(CHECKSUM),
        Just("[head]"),
        Just("\"\"\""),
        Just("'''"),
        Just("\\u0000"),
        Just("\r\n"),
        Just("\r"),
        Just("\0"),
        Just("\u{7f}\u{1b}"),
        Just("#"),
        Just("key = \"x\"\n"),
        Just("\u{feff}"),
        Just("\u{10ffff}"),
    ];
    vec(
        prop_oneof![hostile.prop_map(str::to_owned), any::<String>()],
        0..5,
    )
    .prop_map(|parts| parts.concat())
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<u64>().prop_map(|seed| Digest::of(seed.to_le_bytes()))
}

fn identity() -> impl Strategy<Value = Identity> {
    let file = (text(), digest()).prop_map(|(name, digest)| FileIdentity { name, digest });
    (digest(), text(), vec(file, 0..3)).prop_map(|(digest, version, files)| Identity {
        digest,
        version,
        files,
    })
}

fn material() -> impl Strategy<Value = Material> {
    let value = prop_oneof![
        text().prop_map(Value::Text),
        vec(text(), 0..3).prop_map(Value::List),
        digest().prop_map(Value::Sha256),
    ];
    vec((text(), value), 0..4).prop_map(|fields| {
        let mut material = Material::default();
        for (name, value) in fields {
            material.push(name, value);
        }
        material
    })
}

fn head() -> impl Strategy<Value = Head> {
    // Names are file names of ours.
    let artifact =
        ("[^\n\r]{0,20}", any::<u64>(), digest()).prop_map(|(name, size, sha256)| ArtifactRecord {
            blake3: Checksum::of(name.as_bytes(), &sha256),
            name,
            size,
            sha256,
        });
    (digest(), any::<u64>(), vec(artifact, 1..3)).prop_map(|(key, took, artifact)| Head {
        schema: SCHEMA,
        key,
        took,
        artifact,
    })
}

fn record() -> impl Strategy<Value = Record> {
    let names = (text(), text(), text(), text());
    let times = btree_map(text(), any::<u64>(), 0..3);
    let tools = btree_map(text(), identity(), 0..3);
    (names, any::<u64>(), times, tools, material()).prop_map(
        |((step, kernel, target, log), created, milliseconds, tool, material)| Record {
            step,
            kernel,
            target,
            created,
            milliseconds,
            log,
            tool,
            lines: BTreeMap::new(),
            material,
        },
    )
}

fn manifest() -> impl Strategy<Value = Manifest> {
    (head(), record()).prop_map(|(head, record)| Manifest { head, record })
}

fn example() -> Manifest {
    let mut material = Material::default();
    material.push("step", Value::Text("compile".into()));
    material.push("command.0", Value::List(vec!["clang".into(), "-O3".into()]));
    material.push("input.kernel.mlir", Value::Sha256(Digest::of("module {}")));
    let file = FileIdentity {
        name: "clang".into(),
        digest: Digest::of("clang"),
    };
    let identity = Identity {
        digest: Digest::of("fingerprint"),
        version: "22.1.8".into(),
        files: vec![file],
    };
    let lines = Lines {
        each: 1,
        digests: "AAAABBBB".into(),
    };
    Manifest {
        head: Head {
            schema: SCHEMA,
            key: material.key(),
            took: 40,
            artifact: vec![ArtifactRecord {
                name: "kernel.so".into(),
                size: 12_345,
                sha256: Digest::of("object"),
                blake3: Checksum::of(b"object", &Digest::of("object")),
            }],
        },
        record: Record {
            step: "compile".into(),
            kernel: "vecadd".into(),
            target: "cpu".into(),
            created: 1_700_000_000,
            milliseconds: [("clang".to_owned(), 40)].into(),
            log: "$ clang -O3\na \"warning\"\n".into(),
            tool: [("clang".to_owned(), identity)].into(),
            lines: [("kernel.mlir".to_owned(), lines)].into(),
            material,
        },
    }
}

proptest! {
    #[test]
    fn both_readers_give_back_what_was_written(manifest in manifest()) {
        let text = manifest.to_text().unwrap();
        prop_assert_eq!(Head::parse(text.as_bytes()).unwrap(), manifest.head.clone());
        prop_assert_eq!(Manifest::parse(text.as_bytes()).unwrap(), manifest.clone());
        // The short reader is for lists; a kernel's name is one line there.
        if let Ok(summary) = Summary::parse(text.as_bytes()) {
            prop_assert_eq!(summary.head, manifest.head);
            prop_assert_eq!(summary.kernel, manifest.record.kernel);
            prop_assert_eq!(summary.created, manifest.record.created);
        } else {
            let record = &manifest.record;
            prop_assert!([&record.step, &record.kernel, &record.target].iter().any(|text| text.contains('\n')));
        }
    }

    #[test]
    fn bytes_that_are_no_manifest_are_refused(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(Head::parse(&bytes).is_err());
        prop_assert!(Manifest::parse(&bytes).is_err());
    }

    /// Somebody may write a right checksum under anything.
    #[test]
    fn a_right_checksum_makes_no_manifest(above in text()) {
        let text = format!("{above}{CHECKSUM}{}\n", Digest::of(&above));
        prop_assert!(Head::parse(text.as_bytes()).is_err());
        prop_assert!(Manifest::parse(text.as_bytes()).is_err());
    }

    #[test]
    fn what_one_reader_refuses_of_a_damaged_file_the_other_does_not_take(
        manifest in manifest(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = manifest.to_text().unwrap().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        // An upper-case digit of the checksum says the same.
        prop_assume!(!bytes[at].is_ascii_uppercase());
        prop_assert!(Head::parse(&bytes).is_err());
        prop_assert!(Manifest::parse(&bytes).is_err());
    }
}

#[test]
fn deep_nesting_is_refused() {
    const DEEP: usize = 1 << 19;
    let nested = [
        format!("a = {}", "[".repeat(DEEP)),
        format!("a = {}", "{a=".repeat(DEEP)),
        format!("a{} = 1", ".a".repeat(DEEP)),
        format!("[a{}]", ".a".repeat(DEEP)),
        format!("[[a{}]]", ".a".repeat(DEEP)),
    ];
    for above in nested {
        let text = format!("{above}{CHECKSUM}{}\n", Digest::of(&above));
        assert!(Head::parse(text.as_bytes()).is_err());
        assert!(Manifest::parse(text.as_bytes()).is_err());
        assert!(Summary::parse(text.as_bytes()).is_err());
    }
}

#[test]
fn every_truncation_is_noticed() {
    let text = example().to_text().unwrap();
    for end in 0..text.len() {
        let cut = &text.as_bytes()[..end];
        assert!(Head::parse(cut).is_err(), "{end}");
        assert!(Manifest::parse(cut).is_err(), "{end}");
    }
    let longer = [text.as_bytes(), b"\n"].concat();
    assert!(Head::parse(&longer).is_err());
    assert!(Head::parse(text.repeat(2).as_bytes()).is_err());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let text = example().to_text().unwrap();
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            assert!(Head::parse(&bytes).is_err(), "byte {at}, bit {bit}");
            assert!(Manifest::parse(&bytes).is_err(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn another_schema_is_told() {
    let mut manifest = example();
    manifest.head.schema = 7;
    let text = manifest.to_text().unwrap();
    let told = Head::parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(told, "the manifest has schema version 7, not 1");
    let told = Manifest::parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(told, "the manifest has schema version 7, not 1");
}

#[test]
fn the_largest_numbers_come_back() {
    let mut manifest = example();
    manifest.head.artifact[0].size = u64::MAX;
    manifest.record.created = u64::MAX;
    let text = manifest.to_text().unwrap();
    assert_eq!(Manifest::parse(text.as_bytes()).unwrap(), manifest);
}

#[test]
fn people_can_read_it() {
    let text = example().to_text().unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("# Written by npu-build"));
    for line in [
        "schema = 1",
        "[[artifact]]",
        "name = \"kernel.so\"",
        "size = 12345",
        "[record]",
    ] {
        assert!(lines.contains(&line), "no {line} in\n{text}");
    }
    assert!(lines.last().unwrap().starts_with("# sha256 of all above: "));
}
