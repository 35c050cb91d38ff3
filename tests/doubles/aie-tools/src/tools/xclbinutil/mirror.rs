//! The JSON mirror at the end of an xclbin.

use crate::axlf::{Section, kind};
use crate::json::{Json, object, text};

/// What the mirror says of a section's content.
pub fn describe(section: &mut Section) {
    let bytes = section.data.as_slice();
    let word = |at: usize| crate::bytes::u32_at(bytes, at).unwrap_or(0);
    let long = |at: usize| crate::bytes::u64_at(bytes, at).unwrap_or(0);
    let name = |at: usize, width: usize| {
        let field = bytes.get(at..at + width).unwrap_or_default();
        let field = field.split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(field).into_owned()
    };
    let count = word(0) as usize;
    let list = |row: &dyn Fn(usize) -> Json| Json::Array((0..count.min(256)).map(row).collect());
    let (key, rows_key, rows) = match section.kind {
        kind::MEM_TOPOLOGY | kind::GROUP_TOPOLOGY => {
            let row = |i: usize| {
                let at = 8 + 40 * i;
                object([
                    ("m_type", text("MEM_DRAM")),
                    ("m_used", text("1")),
                    ("m_sizeKB", text(format!("0x{:x}", long(at + 8)))),
                    ("m_tag", text(name(at + 24, 16))),
                    ("m_base_address", text(format!("0x{:x}", long(at + 16)))),
                ])
            };
            let group = section.kind == kind::GROUP_TOPOLOGY;
            let key = if group {
                "group_topology"
            } else {
                "mem_topology"
            };
            (key, "m_mem_data", list(&row))
        }
        kind::IP_LAYOUT => {
            let row = |i: usize| {
                let at = 8 + 80 * i;
                object([
                    ("m_type", text("IP_PS_KERNEL")),
                    ("m_subtype", text("DPU")),
                    ("m_functional", text("DPU")),
                    ("m_kernel_id", text(format!("0x{:x}", word(at + 4) >> 16))),
                    ("m_base_address", text("not_used")),
                    ("m_name", text(name(at + 16, 64))),
                ])
            };
            ("ip_layout", "m_ip_data", list(&row))
        }
        kind::CONNECTIVITY | kind::GROUP_CONNECTIVITY => {
            let row = |i: usize| {
                let at = 4 + 12 * i;
                object([
                    ("arg_index", text(word(at).to_string())),
                    ("m_ip_layout_index", text(word(at + 4).to_string())),
                    ("mem_data_index", text(word(at + 8).to_string())),
                ])
            };
            let group = section.kind == kind::GROUP_CONNECTIVITY;
            let key = if group {
                "group_connectivity"
            } else {
                "connectivity"
            };
            (key, "m_connection", list(&row))
        }
        _ => return,
    };
    let content = object([("m_count", text(count.to_string())), (rows_key, rows)]);
    section.payload = Some(object([(key, content)]).compact());
}
