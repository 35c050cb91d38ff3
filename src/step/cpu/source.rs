//! The text that the tools get of a kernel.

use std::borrow::Cow;

use super::reserved;
use crate::kernel::{append, rename, without_memory_spaces};

/// Functions that are compiled with every kernel, and inlined into it where they are called.
const FUNCTIONS: &str = include_str!("../../../templates/cpu_math.mlir");

/// A kernel's text and name, as the tools see them.
pub struct Source<'a> {
    pub text: Cow<'a, str>,
    pub symbol: Cow<'a, str>,
}

impl<'a> Source<'a> {
    /// Changes the names of all functions that compiled code would call where it means those of the
    /// C library.
    pub fn new(text: &'a str, name: &'a str, defined: &[String]) -> Self {
        let (mut text, mut symbol) = (without_memory_spaces(text), Cow::Borrowed(name));
        for function in defined {
            if reserved::is_reserved(function)
                && let Some((renamed, new)) = rename(&text, function)
            {
                text = renamed.into();
                if function == name {
                    symbol = new.into();
                }
            }
        }
        Self { text, symbol }
    }

    /// With the functions that the schedule calls.
    pub fn with_functions(self) -> Self {
        Self {
            text: append(&self.text, FUNCTIONS).into(),
            ..self
        }
    }
}
