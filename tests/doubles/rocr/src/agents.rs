//! The agents: a CPU, and an AIE agent unless the environment says that there is none.

use crate::handles::{Kind, handle};

/// The CPU agent.
pub const CPU: u64 = handle(Kind::Agent, 1, 0);
/// The AIE agent.
pub const DEVICE: u64 = handle(Kind::Agent, 1, 1);

/// What an attribute's value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text in 64 bytes.
    Text(String),
    /// One byte.
    U8(u8),
    /// Two bytes.
    U16(u16),
    /// Four bytes.
    U32(u32),
    /// Eight bytes.
    U64(u64),
    /// Bytes without an end.
    Bytes(Vec<u8>),
}

impl Value {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => {
                let mut bytes = text.clone().into_bytes();
                bytes.resize(crate::abi::TEXT, 0);
                bytes
            }
            Self::U8(value) => vec![*value],
            Self::U16(value) => value.to_le_bytes().into(),
            Self::U32(value) => value.to_le_bytes().into(),
            Self::U64(value) => value.to_le_bytes().into(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// `hsa_agent_get_info` of the AIE agent; an unknown attribute has none.
pub fn device(name: &str, attribute: u32) -> Option<Value> {
    Some(match attribute {
        0 => Value::Text(name.to_owned()),
        1 => Value::Text("AMD".to_owned()),
        // FEATURE: agent dispatch.
        2 => Value::U32(2),
        // PROFILE: base.
        4 => Value::U32(0),
        12 => Value::U32(1),
        13 | 14 => Value::U32(64),
        // QUEUE_TYPE: single.
        15 => Value::U32(1),
        16 => Value::U32(1),
        17 => Value::U32(3),
        // The product's name, as the driver has it.
        0xa009 => Value::Text(match name {
            "aie2" => "RyzenAI-npu1".to_owned(),
            _ => "RyzenAI-npu4".to_owned(),
        }),
        // A UUID, which no AIE device has: seven bytes, and not one more.
        0xa011 => Value::Bytes(b"AIE-XX\0".to_vec()),
        _ => return None,
    })
}

/// `hsa_agent_get_info` of the CPU agent.
pub fn cpu(attribute: u32) -> Option<Value> {
    Some(match attribute {
        0 => Value::Text("rocr-double CPU".to_owned()),
        1 => Value::Text("CPU".to_owned()),
        2 => Value::U32(0),
        // PROFILE: full.
        4 => Value::U32(1),
        12..=14 => Value::U32(0),
        15..=17 => Value::U32(0),
        _ => return None,
    })
}
