//! The xclbin container (axlf) as xclbinutil 2.26 writes it. Of the JSON mirror at its end, which
//! nobody reads, there are the headers.

use serde_json::Value;

use crate::bytes::Image;

pub mod kind {
    pub const EMBEDDED_METADATA: u32 = 2;
    pub const MEM_TOPOLOGY: u32 = 6;
    pub const CONNECTIVITY: u32 = 7;
    pub const IP_LAYOUT: u32 = 8;
    pub const GROUP_TOPOLOGY: u32 = 26;
    pub const GROUP_CONNECTIVITY: u32 = 27;
    pub const AIE_PARTITION: u32 = 32;
}

pub struct Section {
    pub kind: u32,
    /// Its name, of which 15 bytes are kept.
    pub name: String,
    pub data: Vec<u8>,
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
            r#","section_header":{{"Kind":"{}","Name":"{}","Offset":"0x{offset:x}","Size":"0x{:x}"}}"#,
            section.kind,
            section.kept_name(),
            section.data.len()
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

/// The content of an AIE_PARTITION section from aie_partition.json; `load` gives a PDI's bytes.
pub fn partition(json: &Value, load: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let partition = json.get("aie_partition")?;
    let of_columns = partition.get("partition")?;
    let mut image = Image::default();
    image.fill_to(0xb8);
    let array = |image: &mut Image, at: usize, count: usize, offset: usize| {
        let words = [count as u32, offset as u32].map(u32::to_le_bytes);
        image.set(at, words.as_flattened());
    };
    image.set(4, &0xb8u32.to_le_bytes());
    image.set(8, &2048u32.to_le_bytes());
    image.set(16, &23423u64.to_le_bytes());
    image.set(24, &12345u64.to_le_bytes());
    let columns = number(of_columns.get("column_width")?)? as u16;
    image.set(32, &columns.to_le_bytes());
    // The partition's name, then the commit's: both empty.
    image.fill_to(0xc8);
    image.set(128, &0xc0u32.to_le_bytes());
    let at = image.len();
    let starts: Vec<u64> = numbers(of_columns, "start_columns");
    starts.iter().for_each(|start| image.u16(*start as u16));
    array(&mut image, 40, starts.len(), at);
    let mut entries = Image::default();
    let pdis = items(partition, "PDIs");
    for pdi in pdis {
        let bytes = load(pdi.get("file_name")?.as_str()?)?;
        let group = items(pdi, "cdo_groups").first()?;
        let pdi_at = image.align(8);
        image.bytes(&bytes);
        let name = image.align(8);
        image.name("DPU", 8);
        let lists = ["dpu_kernel_ids", "pre_cdo_groups"].map(|key| {
            let (ids, at) = (numbers(group, key), image.len());
            ids.iter().for_each(|id| image.u64(*id));
            [ids.len() as u32, at as u32]
        });
        let group_at = image.len();
        image.words(&[name as u32, 1]);
        image.u64(number(group.get("pdi_id")?)?);
        image.words(lists.as_flattened());
        image.fill_to(group_at + 96);
        let entry = entries.len();
        entries.bytes(&uuid_bytes(pdi.get("uuid")?.as_str()?)?);
        entries.words(&[bytes.len() as u32, pdi_at as u32, 1, group_at as u32]);
        entries.fill_to(entry + 96);
    }
    let at = image.align(8);
    image.bytes(&entries.0);
    array(&mut image, 120, pdis.len(), at);
    Some(image.0)
}

fn numbers(json: &Value, key: &str) -> Vec<u64> {
    items(json, key).iter().filter_map(number).collect()
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
