//! xclbinutil: as much of it as aiecc and the packers use.

mod kernels;
mod mirror;

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::axlf::{Partition, Section, axlf, kind, sections, uuid_text};
use crate::bytes::Image;
use crate::json::{Json, object, text};
use crate::run::{Result, Run, failure, random_uuid};
use kernels::add_kernels;
use mirror::describe;

#[derive(Default)]
struct Asked {
    input: Option<String>,
    output: Option<String>,
    add: Vec<(String, String, String)>,
    dump: Vec<(String, String, String)>,
    kernels: Vec<String>,
    force: bool,
    quiet: bool,
}

fn error(text: impl AsRef<str>) -> crate::run::Exit {
    failure(format!("ERROR: {}", text.as_ref()))
}

fn triple(value: &str) -> Result<(String, String, String)> {
    let mut parts = value.splitn(3, ':').map(str::to_owned);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(section), Some(format), Some(file)) if !file.is_empty() => {
            Ok((section, format, file))
        }
        _ => Err(error(format!(
            "Expected format <section>:<format>:<file> when using adding a section.  Received: {value}."
        ))),
    }
}

impl Asked {
    fn read(run: &Run) -> Result<Self> {
        let mut asked = Self::default();
        let mut rest = run.arguments.iter();
        while let Some(argument) = rest.next() {
            let (option, mut value) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut take = || {
                let taken = value.take().or_else(|| rest.next().cloned());
                taken.ok_or_else(|| {
                    error(format!(
                        "the required argument for option '{option}' is missing"
                    ))
                })
            };
            match option {
                "--input" | "-i" => asked.input = Some(take()?),
                "--output" | "-o" => asked.output = Some(take()?),
                "--add-section" | "--add-replace-section" | "--replace-section" => {
                    asked.add.push(triple(&take()?)?);
                }
                "--dump-section" => asked.dump.push(triple(&take()?)?),
                "--add-kernel" => asked.kernels.push(take()?),
                "--force" => asked.force = true,
                "--quiet" | "-q" => asked.quiet = true,
                "--info" | "--verbose" => {}
                other => return Err(error(format!("unrecognised option '{other}'"))),
            }
        }
        Ok(asked)
    }
}

/// Runs xclbinutil.
///
/// # Errors
/// A bad command line, and inputs that are missing or make no sense.
pub fn run(run: &Run) -> Result {
    if run.arguments.iter().any(|a| a == "--version") {
        crate::tools::print("XRT Build Version: 2.26.0\n       Build Branch: master\n");
        return Ok(());
    }
    run.begin()?;
    let asked = Asked::read(run)?;
    if !asked.quiet {
        crate::tools::print("XRT Build Version: 2.26.0\n");
    }
    if let Some(input) = asked
        .input
        .as_ref()
        .filter(|input| !Path::new(input).is_file())
    {
        return Err(error(format!(
            "The following input file could not be found: '{input}'."
        )));
    }
    let outputs = asked
        .output
        .iter()
        .chain(asked.dump.iter().map(|(.., file)| file));
    for output in outputs {
        if !asked.force && Path::new(output).exists() {
            return Err(error(format!(
                "The output file '{output}' already exists.  Use the '--force' option to overwrite it."
            )));
        }
    }
    let mut container = match &asked.input {
        Some(input) => {
            let bytes = fs::read(input).map_err(|e| error(format!("{input}: {e}")))?;
            sections(&bytes).ok_or_else(|| error(format!("The file '{input}' is no xclbin")))?
        }
        None => Vec::new(),
    };
    for (section, format, file) in &asked.add {
        add(&mut container, section, format, file)?;
    }
    for file in &asked.kernels {
        add_kernels(&mut container, file)?;
    }
    for (section, format, file) in &asked.dump {
        dump(&container, section, format, file)?;
    }
    if let Some(output) = &asked.output {
        in_order(&mut container);
        container.iter_mut().for_each(describe);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |t| t.as_secs());
        run.deliver(
            "xclbin",
            Path::new(output),
            &axlf(&container, now, random_uuid()),
        );
    }
    Ok(())
}

/// The sections in the order in which they are made.
fn in_order(container: &mut [Section]) {
    let order = [
        kind::MEM_TOPOLOGY,
        kind::AIE_PARTITION,
        kind::EMBEDDED_METADATA,
        kind::IP_LAYOUT,
        kind::CONNECTIVITY,
        kind::GROUP_CONNECTIVITY,
        kind::GROUP_TOPOLOGY,
    ];
    container.sort_by_key(|section| order.iter().position(|kind| *kind == section.kind));
}

fn put(container: &mut Vec<Section>, of: u32, name: &str, data: Vec<u8>) {
    container.retain(|section| section.kind != of);
    container.push(Section {
        kind: of,
        name: name.to_owned(),
        data,
        payload: None,
    });
}

fn read_json(file: &str) -> Result<Json> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|_| error(format!("Unable to open the file for reading: {file}")))?;
    Json::parse(&text).ok_or_else(|| error(format!("{file}: not JSON")))
}

fn add(container: &mut Vec<Section>, section: &str, format: &str, file: &str) -> Result {
    if format != "JSON" {
        return Err(error(format!(
            "The format '{format}' is not supported for section '{section}'"
        )));
    }
    let json = read_json(file)?;
    let stem = Path::new(file)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    match section {
        "MEM_TOPOLOGY" => {
            let data = memories(&json).ok_or_else(|| error(format!("{file}: no mem_topology")))?;
            put(container, kind::MEM_TOPOLOGY, &stem, data.clone());
            put(container, kind::GROUP_TOPOLOGY, "", data);
        }
        "AIE_PARTITION" => {
            let directory = Path::new(file).parent().unwrap_or(Path::new("")).to_owned();
            let load = |name: &str| fs::read(directory.join(name)).ok();
            let partition = Partition::from_json(&json, load);
            let mut partition = partition
                .ok_or_else(|| error(format!("{file}: no AIE partition, or a PDI is missing")))?;
            // An xclbin that is extended keeps the PDIs that it has.
            let earlier = container.iter().find(|s| s.kind == kind::AIE_PARTITION);
            if let Some(earlier) = earlier.and_then(|s| Partition::from_section(&s.data)) {
                partition.pdis.splice(0..0, earlier.pdis);
            }
            put(container, kind::AIE_PARTITION, &stem, partition.section());
        }
        other => return Err(error(format!("The section '{other}' is not supported"))),
    }
    Ok(())
}

fn memories(json: &Json) -> Option<Vec<u8>> {
    let memories = json.get("mem_topology")?.get("m_mem_data")?.items();
    let mut image = Image::default();
    image.words(&[memories.len() as u32, 0]);
    for memory in memories {
        let number = |key: &str| memory.get(key).and_then(Json::as_number);
        image.words(&[0x102, 0]);
        image.u64(number("m_sizeKB")?);
        image.u64(number("m_base_address")?);
        image.name(memory.get("m_tag")?.as_text()?, 16);
    }
    Some(image.0)
}

/// `--dump-section AIE_PARTITION:JSON:FILE`: the JSON, and each PDI beside it.
fn dump(container: &[Section], section: &str, format: &str, file: &str) -> Result {
    let of = match (section, format) {
        ("AIE_PARTITION", "JSON") => kind::AIE_PARTITION,
        ("EMBEDDED_METADATA", "RAW") => kind::EMBEDDED_METADATA,
        _ => {
            return Err(error(format!(
                "The section '{section}' can't be dumped as '{format}'"
            )));
        }
    };
    let found = container.iter().find(|s| s.kind == of);
    let found = found.ok_or_else(|| error(format!("Section '{section}' does not exist.")))?;
    let write = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).map_err(|e| error(format!("{}: {e}", path.display())))
    };
    if of == kind::EMBEDDED_METADATA {
        return write(Path::new(file), &found.data);
    }
    let partition = Partition::from_section(&found.data);
    let partition = partition.ok_or_else(|| error("The AIE partition makes no sense"))?;
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    let strings = |items: Vec<String>| Json::Array(items.into_iter().map(text).collect());
    let hex = |ids: &[u64]| strings(ids.iter().map(|id| format!("0x{id:x}")).collect());
    let mut pdis = Vec::new();
    for pdi in &partition.pdis {
        let uuid = uuid_text(&pdi.uuid);
        write(&directory.join(format!("{uuid}.pdi")), &pdi.image)?;
        let group = object([
            ("name", text("DPU")),
            ("type", text("PRIMARY")),
            ("pdi_id", text(format!("0x{:x}", pdi.id))),
            ("dpu_kernel_ids", hex(&pdi.kernel_ids)),
            ("pre_cdo_groups", hex(&pdi.pre_groups)),
        ]);
        pdis.push(object([
            ("uuid", text(&uuid)),
            ("file_name", text(format!("{uuid}.pdi"))),
            ("cdo_groups", Json::Array(vec![group])),
        ]));
    }
    let starts = partition.start_columns.iter().map(u16::to_string).collect();
    let json = object([(
        "aie_partition",
        object([
            ("name", text("")),
            ("operations_per_cycle", text("2048")),
            ("inference_fingerprint", text("23423")),
            ("pre_post_fingerprint", text("12345")),
            ("kernel_commit_id", text("")),
            (
                "partition",
                object([
                    ("column_width", text(partition.column_width.to_string())),
                    ("start_columns", strings(starts)),
                ]),
            ),
            ("PDIs", Json::Array(pdis)),
        ]),
    )]);
    write(Path::new(file), format!("{}\n", json.pretty(4)).as_bytes())
}
