//! What is read when it is first asked for: most runs need one discovery of the memo.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value, or the bytes that it is still to be read from.
#[derive(Debug, Default)]
pub(super) struct Lazy<T> {
    bytes: Vec<u8>,
    value: Option<T>,
}

impl<T: Serialize + DeserializeOwned> Lazy<T> {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_owned(),
            value: None,
        }
    }

    pub(super) fn from_value(value: T) -> Self {
        Self {
            bytes: Vec::new(),
            value: Some(value),
        }
    }

    /// The value; `None` if the bytes are none.
    pub(super) fn get(&mut self) -> Option<&mut T> {
        if self.value.is_none() {
            self.value = postcard::from_bytes(&self.bytes).ok();
        }
        self.value.as_mut()
    }

    /// The value; an empty one if the bytes are none.
    pub(super) fn get_or_default(&mut self) -> &mut T
    where
        T: Default,
    {
        self.get();
        self.value.get_or_insert_with(T::default)
    }

    pub(super) fn to_bytes(&self) -> postcard::Result<Vec<u8>> {
        match &self.value {
            Some(value) => postcard::to_allocvec(value),
            None => Ok(self.bytes.clone()),
        }
    }
}
