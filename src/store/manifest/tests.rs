use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::step::material::Value;
use crate::toolchain::FileIdentity;

/// Text with everything that the form might stumble over.
fn text() -> impl Strategy<Value = String> {
    const HOSTILE: [&str; 10] = [
        "\n",
        "\"",
        "\\",
        "\\u0000",
        "\r\n",
        "\0",
        "\u{7f}\u{1b}",
        "{",
        "}\n\"",
        "\u{10ffff}",
    ];
    let hostile = prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned);
    let parts = vec(prop_oneof![hostile, any::<String>()], 0..5);
    parts.prop_map(|parts| parts.concat())
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
    let artifact =
        (text(), any::<u64>(), digest()).prop_map(|(name, size, sha256)| ArtifactRecord {
            blake3: Checksum::of(name.as_bytes(), &sha256),
            name,
            size,
            sha256,
        });
    let names = (text(), text(), text());
    let numbers = (any::<u64>(), any::<u64>());
    (digest(), names, numbers, vec(artifact, 1..3)).prop_map(
        |(key, (step, kernel, target), (created, took), artifacts)| Head {
            schema: SCHEMA,
            key,
            step,
            kernel,
            target,
            created,
            took,
            artifacts,
        },
    )
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let milliseconds = btree_map(text(), any::<u64>(), 0..3);
    let tools = btree_map(text(), identity(), 0..3);
    let record = (milliseconds, tools, material(), text()).prop_map(
        |(milliseconds, tools, material, log)| Record {
            milliseconds,
            tools,
            lines: BTreeMap::new(),
            material,
            log,
        },
    );
    (head(), record).prop_map(|(head, record)| Manifest { head, record })
}

/// Whether both readers refuse it.
fn is_refused(bytes: &[u8]) -> bool {
    Head::parse(bytes).is_err() && Manifest::parse(bytes).is_err()
}

fn sealed(above: &str) -> String {
    format!("{above}\"{}\"\n", Digest::of(above))
}

fn example() -> Manifest {
    let mut material = Material::default();
    material.push("command.0", Value::List(vec!["clang".into(), "-O3".into()]));
    let artifact = ArtifactRecord {
        name: "kernel.so".into(),
        size: u64::MAX,
        sha256: Digest::of("object"),
        blake3: Checksum::of(b"object", &Digest::of("object")),
    };
    Manifest {
        head: Head {
            schema: SCHEMA,
            key: material.key(),
            step: "compile".into(),
            kernel: "vecadd".into(),
            target: "cpu".into(),
            created: 1_700_000_000,
            took: 40,
            artifacts: vec![artifact],
        },
        record: Record {
            milliseconds: [("clang".to_owned(), 40)].into(),
            tools: BTreeMap::new(),
            lines: [("kernel.mlir".to_owned(), Lines::default())].into(),
            material,
            log: "$ clang -O3\na \"warning\"\n".into(),
        },
    }
}

proptest! {
    #[test]
    fn both_readers_give_back_what_was_written(manifest in manifest()) {
        let text = manifest.to_text().unwrap();
        prop_assert_eq!(Head::parse(text.as_bytes()).unwrap(), manifest.head.clone());
        prop_assert_eq!(Manifest::parse(text.as_bytes()).unwrap(), manifest);
    }

    #[test]
    fn bytes_that_are_no_manifest_are_refused(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(is_refused(&bytes));
    }

    /// Somebody may write a right checksum under anything.
    #[test]
    fn a_right_checksum_makes_no_manifest(above in text()) {
        prop_assert!(is_refused(sealed(&above).as_bytes()));
        let twice = sealed(&format!("{above}\n{above}\n"));
        prop_assert!(is_refused(twice.as_bytes()));
    }

    #[test]
    fn a_changed_byte_is_noticed(
        manifest in manifest(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = manifest.to_text().unwrap().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(is_refused(&bytes));
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_noticed() {
    let text = example().to_text().unwrap();
    assert_eq!(Manifest::parse(text.as_bytes()).unwrap(), example());
    for at in 0..text.len() {
        assert!(is_refused(&text.as_bytes()[..at]), "{at}");
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            assert!(is_refused(&bytes), "byte {at}, bit {bit}");
        }
    }
    assert!(is_refused(format!("{text}\n").as_bytes()));
    assert!(is_refused(text.repeat(2).as_bytes()));
}

#[test]
fn deep_nesting_is_refused() {
    for opening in ["[", "{\"a\":"] {
        let nested = opening.repeat(1 << 19);
        assert!(is_refused(
            sealed(&format!("{nested}\n{nested}\n")).as_bytes()
        ));
    }
}

#[test]
fn another_schema_is_named() {
    let mut manifest = example();
    manifest.head.schema = 7;
    let text = manifest.to_text().unwrap();
    let expected = "the manifest has schema version 7, not 1";
    for error in [
        Head::parse(text.as_bytes()).unwrap_err(),
        Manifest::parse(text.as_bytes()).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), expected);
    }
}
