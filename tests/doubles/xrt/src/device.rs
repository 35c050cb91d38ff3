//! The C ABI between the C++ library and what reads and computes. The only caller is
//! `library/internal.h`, which is compiled and installed together with this.
#![allow(
    clippy::missing_safety_doc,
    reason = "each function is called by library/internal.h alone"
)]

use crate::elf::{Elf, Refusal};
use crate::xclbin::{Argument, Xclbin};
use aie_tools::program::{CannotRun, Operand, Program};
use aie_tools::stream::{Generation, Stream};
use std::ffi::c_char;
use std::ptr;

/// A kernel of an ELF.
#[repr(C)]
pub struct KernelView {
    name: *const c_char,
    instance: *const c_char,
    arguments: u32,
    patched: u64,
    code: *const u8,
    code_size: usize,
}

/// The device's copy of an argument.
#[repr(C)]
pub struct Span {
    data: *mut u8,
    size: usize,
}

const COMPLETED: i32 = 4;
const ERROR: i32 = 5;
const TIMEOUT: i32 = 8;

/// # Safety
/// `data` heads `size` bytes, or `size` is 0.
unsafe fn bytes<'a>(data: *const u8, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, size) }
}

/// # Safety
/// `refusal` may be written.
unsafe fn boxed<T>(parsed: Result<T, Refusal>, refusal: *mut *const c_char) -> *mut T {
    match parsed {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(text) => {
            // SAFETY: the caller's promise.
            unsafe { refusal.write(text.as_ptr()) };
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_elf_open(
    data: *const u8,
    size: usize,
    refusal: *mut *const c_char,
) -> *mut Elf {
    // SAFETY: the caller's promise.
    unsafe { boxed(Elf::parse(bytes(data, size)), refusal) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_elf_close(elf: *mut Elf) {
    // SAFETY: it comes from `xrtd_elf_open`, and is closed once.
    drop(unsafe { Box::from_raw(elf) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_elf_columns(elf: &Elf) -> u32 {
    elf.columns
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_elf_kernel(elf: &Elf, index: usize, view: &mut KernelView) -> bool {
    let Some(kernel) = elf.kernels.get(index) else {
        return false;
    };
    *view = KernelView {
        name: kernel.name.as_ptr(),
        instance: kernel.instance.as_ptr(),
        arguments: kernel.arguments,
        patched: kernel.patched,
        code: kernel.code.as_ptr(),
        code_size: kernel.code.len(),
    };
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_xclbin_open(
    data: *const u8,
    size: usize,
    refusal: *mut *const c_char,
) -> *mut Xclbin {
    // SAFETY: the caller's promise.
    unsafe { boxed(Xclbin::parse(bytes(data, size)), refusal) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_xclbin_close(xclbin: *mut Xclbin) {
    // SAFETY: it comes from `xrtd_xclbin_open`, and is closed once.
    drop(unsafe { Box::from_raw(xclbin) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_xclbin_columns(xclbin: &Xclbin) -> u32 {
    xclbin.columns
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_xclbin_uuid(xclbin: &Xclbin) -> *const u8 {
    xclbin.uuid.as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_xclbin_kernel(xclbin: &Xclbin, index: usize) -> *const c_char {
    let kernel = xclbin.kernels.get(index);
    kernel.map_or(ptr::null(), |kernel| kernel.name.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_xclbin_argument(
    xclbin: &Xclbin,
    kernel: usize,
    index: usize,
    argument: &mut Argument,
) -> bool {
    let kernel = xclbin.kernels.get(kernel);
    let found = kernel.and_then(|kernel| kernel.arguments.get(index));
    found.is_some_and(|found| {
        *argument = *found;
        true
    })
}

/// Executes an instruction stream on the device's copies of the arguments; the state in which the
/// run ends. With `garbage`, memory is not where the kernel looks for it.
#[unsafe(no_mangle)]
unsafe extern "C" fn xrtd_execute(
    code: *const u8,
    code_size: usize,
    generation: u32,
    spans: *const Span,
    count: usize,
    garbage: bool,
) -> i32 {
    // SAFETY: the caller's promise.
    let code = unsafe { bytes(code, code_size) };
    let spans = match count {
        0 => &[][..],
        // SAFETY: the same.
        _ => unsafe { std::slice::from_raw_parts(spans, count) },
    };
    let is_first =
        |index: usize| spans.iter().position(|s| s.data == spans[index].data) == Some(index);
    // A buffer that is bound twice is written through its first argument, unless the kernel writes
    // it through another one.
    let mut copies: Vec<Vec<u8>> = (0..count)
        .map(|index| match is_first(index) {
            true => Vec::new(),
            // SAFETY: nobody writes it now.
            false => unsafe { bytes(spans[index].data, spans[index].size) }.to_vec(),
        })
        .collect();
    let before = copies.clone();
    let mut arguments: Vec<&mut [u8]> = copies
        .iter_mut()
        .enumerate()
        .map(
            |(index, copy)| match is_first(index) && spans[index].size > 0 {
                // SAFETY: each is another buffer, and the library's alone as long as a run lasts.
                true => unsafe {
                    std::slice::from_raw_parts_mut(spans[index].data, spans[index].size)
                },
                false => copy,
            },
        )
        .collect();
    let state = execute(code, generation, &mut arguments, garbage);
    drop(arguments);
    for (index, (copy, before)) in copies.iter().zip(&before).enumerate() {
        if copy != before {
            // SAFETY: as above; the slices of before are gone.
            let span =
                unsafe { std::slice::from_raw_parts_mut(spans[index].data, spans[index].size) };
            span.copy_from_slice(copy);
        }
    }
    state
}

fn execute(code: &[u8], generation: u32, arguments: &mut [&mut [u8]], garbage: bool) -> i32 {
    // What is no instruction is waited for until the driver has had enough.
    let Ok(stream) = Stream::parse(code) else {
        return TIMEOUT;
    };
    let expected = match stream.generation {
        Generation::Npu1 => 1,
        Generation::Npu2 => 2,
    };
    if expected != generation {
        return ERROR;
    }
    let Ok(program) = Program::of_stream(&stream) else {
        complain("this instruction stream carries no program");
        return ERROR;
    };
    if garbage {
        spoil(&program, arguments);
        return COMPLETED;
    }
    match program.run(arguments, &[0; 4096]) {
        Ok(()) => COMPLETED,
        Err(CannotRun::Opaque) => {
            complain("nobody understood what this kernel computes");
            ERROR
        }
        // Outside of a buffer nothing is mapped.
        Err(_) => ERROR,
    }
}

/// What the kernel was to write gets something else.
fn spoil(program: &Program, arguments: &mut [&mut [u8]]) {
    for step in program.steps.iter().flatten() {
        if let Operand::Argument(index) = step.result
            && let Some(argument) = arguments.get_mut(index as usize)
        {
            for (position, byte) in argument.iter_mut().enumerate() {
                *byte = (position as u8).wrapping_mul(37) ^ 0xa5;
            }
        }
    }
}

#[allow(clippy::print_stderr, reason = "the emulated driver's log")]
fn complain(text: &str) {
    eprintln!("[xrt double] {text}");
}
