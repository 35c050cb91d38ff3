use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::step::material::Value;

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

/// A manifest with such texts in every kind of place.
fn manifest() -> impl Strategy<Value = Manifest> {
    (vec(text(), 8), any::<u64>()).prop_map(|(texts, number)| {
        let mut manifest = example();
        let text = |at: usize| texts[at].clone();
        let (head, record) = (&mut manifest.head, &mut manifest.record);
        (head.step, head.kernel, head.target) = (text(0), text(1), text(2));
        (head.created, head.took, head.artifacts[0].size) = (number, !number, number);
        head.artifacts[0].name = text(3);
        record.log = text(4);
        record.milliseconds.insert(text(5), number);
        record.material.push(text(6), Value::Text(text(7)));
        record.material.push(text(7), Value::List(texts.clone()));
        record
            .material
            .push(text(5), Value::Sha256(Digest::of(text(0))));
        manifest
    })
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
        assert_eq!(error.reason, expected);
    }
}
