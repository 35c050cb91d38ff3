//! JSON that is read when it is first asked for: most runs need one line of the memo.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value, or the text that it is still to be read from.
#[derive(Debug, Default)]
pub(super) struct Lazy<T> {
    text: String,
    value: Option<T>,
}

impl<T: Serialize + DeserializeOwned> Lazy<T> {
    pub(super) fn from_text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            value: None,
        }
    }

    pub(super) fn from_value(value: T) -> Self {
        Self {
            text: String::new(),
            value: Some(value),
        }
    }

    /// The value; `None` if the text is none.
    pub(super) fn get(&mut self) -> Option<&mut T> {
        if self.value.is_none() {
            self.value = serde_json::from_str(&self.text).ok();
        }
        self.value.as_mut()
    }

    /// The value; an empty one if the text is none.
    pub(super) fn get_or_default(&mut self) -> &mut T
    where
        T: Default,
    {
        self.get();
        self.value.get_or_insert_with(T::default)
    }

    pub(super) fn to_text(&self) -> serde_json::Result<String> {
        match &self.value {
            Some(value) => serde_json::to_string(value),
            None => Ok(self.text.clone()),
        }
    }
}
