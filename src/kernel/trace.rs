//! Traces of a runtime sequence, and whether a launch has memory for them.
//!
//! `aie.trace.host_config` says where the events of the traced tiles go: to the argument `arg_idx`,
//! behind the last argument, or behind what the last one holds, as versions of mlir-aie have it. Only
//! an argument that the sequence has is memory that a launcher passes, as it passes the others.

use std::borrow::Cow;

use super::aie;
use super::links::unescape;
use super::tokens::{Kind, Tokens};

/// Whether a sequence with so many arguments, or one that it runs, writes a trace to anything else.
pub(super) fn escapes(tokens: &Tokens<'_>, body: Option<(usize, usize)>, arguments: usize) -> bool {
    let Some((start, end)) = body else {
        return false;
    };
    let mut runs_others = false;
    for at in start..end {
        match operation(tokens, at).as_deref() {
            Some("trace.host_config") if !is_passed(tokens, at, arguments) => return true,
            Some("run") => runs_others = true,
            _ => {}
        }
    }
    let is_trace = |at| operation(tokens, at).as_deref() == Some("trace.host_config");
    runs_others && (0..tokens.len()).any(is_trace)
}

fn operation<'s>(tokens: &Tokens<'s>, at: usize) -> Option<Cow<'s, str>> {
    let (name, is_generic) = aie::operation(tokens, at)?;
    if is_generic {
        let name = unescape(tokens.text(at));
        return aie::without_dialect(&name).map(|name| name.to_owned().into());
    }
    aie::without_dialect(name).map(Cow::Borrowed)
}

/// Whether the trace that is configured at a token goes to one of the arguments. What the operation
/// says of that is on its line; where anything may say something else, it does not.
fn is_passed(tokens: &Tokens<'_>, at: usize, arguments: usize) -> bool {
    let mut index = None;
    for next in at + 1..tokens.len() {
        let is_another = aie::operation(tokens, next)
            .is_some_and(|(name, _)| name.contains('.') && !name.ends_with('.'));
        if tokens.get(next).first || is_another {
            break;
        }
        if tokens.is_word(next, "arg_idx") && tokens.is(next + 1, b'=') {
            index = tokens.text(next + 2).parse().ok();
        }
    }
    let elsewhere = |at| {
        let word = match tokens.kind(at) {
            Kind::Word => tokens.text(at).to_owned(),
            Kind::Text => unescape(tokens.text(at)),
            _ => return false,
        };
        matches!(&*word, "trace_after_last_tensor" | "reuse_output_buffer")
    };
    index.is_some_and(|index: usize| index < arguments) && !(0..tokens.len()).any(elsewhere)
}

#[cfg(test)]
mod tests {
    use super::super::Module;

    fn refused(sequences: &str) -> Option<String> {
        let text = format!("aie.device(npu2) {{\n{sequences}\n}}");
        let module = Module::scan(text.as_bytes()).unwrap();
        module.select(None).err().map(|error| error.to_string())
    }

    fn configured(how: &str) -> Option<String> {
        refused(&format!(
            "aie.runtime_sequence @s(%a: memref<4xi32>, %t: memref<8192xi8>) {{\n{how}\n\
             aie.trace.start_config @t\n}}"
        ))
    }

    #[test]
    fn a_trace_goes_to_an_argument_or_nowhere() {
        for passed in [
            "aie.trace.host_config buffer_size = 8192 arg_idx = 1",
            "aie.trace.host_config {arg_idx = 1 : i32, buffer_size = 8192 : i32}",
            "\"aie.trace.host_config\"() <{arg_idx = 0 : i32, buffer_size = 64 : i32}> : () -> ()",
            "aiex.npu.sync {column = 0 : i32}",
        ] {
            assert_eq!(configured(passed), None, "{passed}");
        }
        for escaping in [
            "aie.trace.host_config buffer_size = 8192",
            "aie.trace.host_config {buffer_size = 8192 : i32}",
            "aie.trace.host_config buffer_size = 8192 arg_idx = 2",
            "aie.trace.host_config buffer_size = 64 arg_idx = 1 trace_after_last_tensor = true",
            "aie.trace.host_config {arg_idx = 1 : i32, reuse_output_buffer = true}",
            "\"aie.trace.host_config\"() <{buffer_size = 64 : i32}> : () -> ()",
            "aie.trace.host_config {arg_idx = 1 : i32,\ntrace_after_last_tensor = true}",
            "aie.trace.host_config {arg_idx = 1 : i32, \"trace_after_last_tensor\" = true}",
            "\"aie.trace.host_config\"() <{arg_idx = 1 : i32, trace_after_last_tensor = -1 : i1}> : () -> ()",
            "aie.trace.host_config buffer_size = 64 aie.trace.host_config arg_idx = 1 buffer_size = 64",
            "aie.trace.host_config buffer_size = 64 x.y {arg_idx = 1 : i32}",
            "\"aie.\\74race.host_config\"() <{buffer_size = 64 : i32}> : () -> ()",
        ] {
            let error = configured(escaping).unwrap_or_default();
            assert!(
                error.starts_with("line 2: 'main:s' writes a trace"),
                "{escaping}: {error}"
            );
        }
    }

    #[test]
    fn a_sequence_that_runs_a_traced_one_is_traced() {
        let outer = "aie.runtime_sequence @outer(%a: memref<4xi32>) {\n\
                     aiex.configure @main {\naiex.run @inner(%a) : (memref<4xi32>)\n}\n}";
        let inner = |trace: &str| {
            format!("aie.runtime_sequence @inner(%a: memref<4xi32>) {{\n{trace}\n}}\n{outer}")
        };
        assert_eq!(refused(&inner("")), None);
        let error = refused(&inner("aie.trace.host_config buffer_size = 8")).unwrap();
        assert!(error.contains("writes a trace"), "{error}");
    }
}
