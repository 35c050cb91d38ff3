//! The xclbin container (axlf) as xclbinutil 2.26 writes it, with its JSON mirror at the end; and
//! as much reading of it as `--dump-section` and `--input` need.

use serde_json::Value;

use crate::bytes::{Image, u32_at, u64_at};

pub mod kind {
    pub const EMBEDDED_METADATA: u32 = 2;
    pub const MEM_TOPOLOGY: u32 = 6;
    pub const CONNECTIVITY: u32 = 7;
    pub const IP_LAYOUT: u32 = 8;
    pub const GROUP_TOPOLOGY: u32 = 26;
    pub const GROUP_CONNECTIVITY: u32 = 27;
    pub const AIE_PARTITION: u32 = 32;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub kind: u32,
    /// Its name, of which 15 bytes are kept.
    pub name: String,
    pub data: Vec<u8>,
    pub payload: Option<String>,
}

impl Section {
    fn kept_name(&self) -> &str {
        let end = self.name.len().min(15);
        self.name.get(..end).unwrap_or("")
    }
}

const HEADER: usize = 0x1c8;
const MIRROR_START: &str = "XCLBIN_MIRROR_DATA_START";
const MIRROR_END: &str = "XCLBIN_MIRROR_DATA_END";

/// The container of `sections`, with a time stamp in seconds and a uuid.
pub fn axlf(sections: &[Section], time: u64, uuid: [u8; 16]) -> Vec<u8> {
    let mut image = Image::default();
    image.bytes(b"xclbin2\0");
    image.0.resize(0x128, 0xff);
    image.fill_to(HEADER + 40 * sections.len());
    let mut table = Image::default();
    let mut mirror = String::new();
    for section in sections {
        let offset = image.align(8);
        image.bytes(&section.data);
        table.u32(section.kind);
        table.name(section.kept_name(), 16);
        table.u32(0);
        table.u64(offset as u64);
        table.u64(section.data.len() as u64);
        mirror.push_str(&format!(
            r#","section_header":{{"Kind":"{}","Name":"{}","Offset":"0x{offset:x}","Size":"0x{:x}"{}}}"#,
            section.kind,
            section.kept_name(),
            section.data.len(),
            section.payload.as_ref().map(|p| format!(r#","payload":{p}"#)).unwrap_or_default(),
        ));
    }
    image.align(8);
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let unique: String = time
        .to_le_bytes()
        .map(|byte| format!("{byte:02x}"))
        .concat();
    let text = format!(
        r#"{MIRROR_START}{{"schema_version":{{"major":"1","minor":"0","patch":"0"}},"header":{{"Magic":"xclbin2","SignatureLength":"ffffffff","KeyBlock":"{}","UniqueID":"{unique}","TimeStamp":"{time}","FeatureRomTimeStamp":"0","Version":"\u0002.\u001A.0","Mode":"0","InterfaceUUID":"{}","PlatformVBNV":"","XclBinUUID":"{hex}","DebugBin":""}}{mirror}}}{}{MIRROR_END}"#,
        "f".repeat(512),
        "0".repeat(32),
        '\n',
    );
    image.bytes(text.as_bytes());
    let length = image.len() as u64;
    image.set(0x128, &time.to_le_bytes());
    image.set(0x130, &length.to_le_bytes());
    image.set(0x138, &time.to_le_bytes());
    image.set(0x140, &[0; HEADER - 0x140]);
    image.set(0x14a, &[2, 26]);
    image.set(0x1a0, &uuid);
    image.set(0x1c0, &(sections.len() as u32).to_le_bytes());
    image.set(HEADER, &table.0);
    image.0
}

/// The sections of a container, without what the mirror says of them.
pub fn sections(file: &[u8]) -> Option<Vec<Section>> {
    if !file.starts_with(b"xclbin2\0") {
        return None;
    }
    let count = u32_at(file, 0x1c0)? as usize;
    let mut found = Vec::new();
    for index in 0..count.min(64) {
        let at = HEADER + 40 * index;
        let name = file.get(at + 4..at + 20)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let offset = usize::try_from(u64_at(file, at + 24)?).ok()?;
        let size = usize::try_from(u64_at(file, at + 32)?).ok()?;
        found.push(Section {
            kind: u32_at(file, at)?,
            name: String::from_utf8_lossy(name).into_owned(),
            data: file.get(offset..offset.checked_add(size)?)?.to_vec(),
            payload: None,
        });
    }
    Some(found)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdi {
    /// Its uuid, in the order of its text.
    pub uuid: [u8; 16],
    pub image: Vec<u8>,
    pub kernel_ids: Vec<u64>,
    pub pre_groups: Vec<u64>,
    pub id: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub column_width: u16,
    pub start_columns: Vec<u16>,
    pub pdis: Vec<Pdi>,
}

/// The elements of a member that is an array.
pub fn items<'v>(json: &'v Value, key: &str) -> &'v [Value] {
    let items = json.get(key).and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}

/// An integer, written as a number, a decimal string or `0x…`.
pub fn number(json: &Value) -> Option<u64> {
    let text = json.as_str().unwrap_or_default();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => json.as_u64().or_else(|| text.parse().ok()),
    }
}

fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or("");
    [
        part(0..8),
        part(8..12),
        part(12..16),
        part(16..20),
        part(20..32),
    ]
    .join("-")
}

impl Partition {
    /// Reads aie_partition.json; `load` gives a PDI's bytes.
    pub fn from_json(json: &Value, load: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Self> {
        let root = json.get("aie_partition")?;
        let partition = root.get("partition")?;
        let mut pdis = Vec::new();
        for pdi in items(root, "PDIs") {
            let group = items(pdi, "cdo_groups").first()?;
            let ids = |key: &str| items(group, key).iter().filter_map(number).collect();
            pdis.push(Pdi {
                uuid: uuid_bytes(pdi.get("uuid")?.as_str()?)?,
                image: load(pdi.get("file_name")?.as_str()?)?,
                kernel_ids: ids("dpu_kernel_ids"),
                pre_groups: ids("pre_cdo_groups"),
                id: group.get("pdi_id").and_then(number).unwrap_or(1),
            });
        }
        let starts = items(partition, "start_columns").iter().filter_map(number);
        Some(Self {
            column_width: number(partition.get("column_width")?)? as u16,
            start_columns: starts.map(|column| column as u16).collect(),
            pdis,
        })
    }

    pub fn section(&self) -> Vec<u8> {
        let mut image = Image::default();
        image.fill_to(0xb8);
        let array = |image: &mut Image, at: usize, count: usize, offset: usize| {
            image.set(at, &(count as u32).to_le_bytes());
            image.set(at + 4, &(offset as u32).to_le_bytes());
        };
        image.set(4, &0xb8u32.to_le_bytes());
        image.set(8, &2048u32.to_le_bytes());
        image.set(16, &23423u64.to_le_bytes());
        image.set(24, &12345u64.to_le_bytes());
        image.set(32, &self.column_width.to_le_bytes());
        // The partition's name, then the commit's: both empty.
        image.fill_to(0xc8);
        image.set(128, &0xc0u32.to_le_bytes());
        let starts = image.len();
        self.start_columns
            .iter()
            .for_each(|start| image.u16(*start));
        array(&mut image, 40, self.start_columns.len(), starts);
        let mut entries = Image::default();
        for pdi in &self.pdis {
            let pdi_at = image.align(8);
            image.bytes(&pdi.image);
            let name = image.align(8);
            image.name("DPU", 8);
            let kernels = image.len();
            pdi.kernel_ids.iter().for_each(|id| image.u64(*id));
            let pre = image.len();
            pdi.pre_groups.iter().for_each(|id| image.u64(*id));
            let group = image.len();
            image.words(&[name as u32, 1]);
            image.u64(pdi.id);
            image.words(&[pdi.kernel_ids.len() as u32, kernels as u32]);
            image.words(&[pdi.pre_groups.len() as u32, pre as u32]);
            image.fill_to(group + 96);
            let entry = entries.len();
            entries.bytes(&pdi.uuid);
            entries.words(&[pdi.image.len() as u32, pdi_at as u32, 1, group as u32]);
            entries.fill_to(entry + 96);
        }
        let at = image.align(8);
        image.bytes(&entries.0);
        array(&mut image, 120, self.pdis.len(), at);
        image.0
    }

    pub fn from_section(data: &[u8]) -> Option<Self> {
        let array = |at: usize| Some((u32_at(data, at)? as usize, u32_at(data, at + 4)? as usize));
        let (starts, starts_at) = array(40)?;
        let (pdis, pdis_at) = array(120)?;
        let u16_at = |at: usize| u32_at(data, at).map(|word| word as u16);
        let longs = |at: usize| -> Option<Vec<u64>> {
            let (count, from) = array(at)?;
            (0..count.min(64))
                .map(|i| u64_at(data, from + 8 * i))
                .collect()
        };
        let mut partition = Self {
            column_width: u16_at(32)?,
            start_columns: (0..starts.min(64))
                .map(|i| u16_at(starts_at + 2 * i))
                .collect::<Option<_>>()?,
            pdis: Vec::new(),
        };
        for index in 0..pdis.min(64) {
            let at = pdis_at + 96 * index;
            let (size, from) = array(at + 16)?;
            let (_, group) = array(at + 24)?;
            partition.pdis.push(Pdi {
                uuid: data.get(at..at + 16)?.try_into().ok()?,
                image: data.get(from..from.checked_add(size)?)?.to_vec(),
                kernel_ids: longs(group + 16)?,
                pre_groups: longs(group + 24)?,
                id: u64_at(data, group + 8)?,
            });
        }
        Some(partition)
    }
}
