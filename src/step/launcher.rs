//! The `launcher` step: signature and artifact digest to Rust source.
//!
//! The request is serialised, and that text is the step's input: what is rendered depends on
//! nothing else but the template, whose digest is a fact of the key, and the code that fills it.

use std::sync::LazyLock;

use super::check::Check;
use super::material::Value;
use super::{Input, Kind, Loaded, Output, Step, Work};
use crate::digest::Digest;
use crate::launcher::{self, Request};
use crate::toolchain::Companions;

/// Raised when the same request and template would give another text.
const VERSION: u32 = 2;

static TEMPLATE: LazyLock<Digest> = LazyLock::new(|| Digest::of(launcher::TEMPLATE));

/// The artifact's name in its entry.
pub const SOURCE: &str = "launcher.rs";

/// The step that renders the launcher of what `request` lists.
///
/// # Errors
/// When a name of the request can't be expressed in Rust.
pub fn launcher(
    subject: &str,
    target: &'static str,
    request: &Request,
) -> Result<Step, launcher::Error> {
    launcher::check(request)?;
    let request = serde_json::to_vec(request)?;
    Ok(Step {
        kind: Kind::Launcher,
        version: VERSION,
        subject: subject.to_owned(),
        source: None,
        target,
        inputs: vec![Input::new("request.json", request)],
        environment: Vec::new(),
        companions: Companions::default(),
        facts: vec![("template", Value::Sha256(*TEMPLATE))],
        work: Work::Native(render),
        outputs: vec![Output::new(SOURCE, Check::Text)],
    })
}

fn render(inputs: &[Loaded<'_>]) -> Result<Vec<Vec<u8>>, String> {
    let request = inputs.first().map_or(&[][..], |input| &input.bytes);
    let request: Request = serde_json::from_slice(request).map_err(|error| error.to_string())?;
    let text = launcher::render(&request).map_err(|error| error.to_string())?;
    Ok(vec![text.into_bytes()])
}
