//! `call.inc`: how the C entry point calls one kernel.
//!
//! The lowering turns a ranked memref into (allocated, aligned, offset, sizes…, strides…), an
//! unranked one into (rank, pointer to such a descriptor), and leaves scalars as they are. The
//! caller's slots hold only what varies: an address, the dynamic sizes, a scalar's bits.

use std::fmt::Write as _;

use npu_runtime::{ElementType, Signature};

use crate::kernel::types::{Layout, Type};

/// An argument that the cpu target can't pass.
#[derive(Debug, thiserror::Error)]
#[error(
    "argument %{argument} of @{kernel} has type {mlir_type}, which the cpu target can't pass: {reason}"
)]
pub struct UnsupportedArgument {
    /// The kernel.
    pub kernel: String,
    /// The argument, without the `%`.
    pub argument: String,
    /// Its type.
    pub mlir_type: String,
    /// Why not.
    pub reason: String,
}

/// The C text of one call.
#[derive(Default)]
struct Call {
    slots: usize,
    prototype: Vec<String>,
    locals: String,
    values: Vec<String>,
}

/// The text of `call.inc`: `NPU_SLOTS` and `npu_call`, which calls the function `symbol`.
pub fn generate(
    signature: &Signature,
    types: &[Type],
    symbol: &str,
) -> Result<String, UnsupportedArgument> {
    let mut call = Call::default();
    for (parameter, r#type) in signature.parameters.iter().zip(types) {
        call.add(r#type).map_err(|reason| UnsupportedArgument {
            kernel: signature.name.to_string(),
            argument: parameter.name.to_string(),
            mlir_type: parameter.mlir_type.to_string(),
            reason,
        })?;
    }
    if signature.grid {
        for value in ["grid[0]", "grid[1]", "grid[2]", "id[0]", "id[1]", "id[2]"] {
            call.pass("npu_i32", value);
        }
    }
    Ok(call.text(symbol))
}

impl Call {
    fn pass(&mut self, c_type: &str, value: impl Into<String>) {
        self.prototype.push(c_type.into());
        self.values.push(value.into());
    }

    fn slot(&mut self) -> String {
        self.slots += 1;
        format!("slots[{}]", self.slots - 1)
    }

    fn add(&mut self, r#type: &Type) -> Result<(), String> {
        match r#type {
            Type::Unranked { .. } => {
                let (address, length) = (self.slot(), self.slot());
                let name = format!("descriptor{}", self.slots);
                let _ = writeln!(
                    self.locals,
                    "    struct npu_descriptor {name} = {{(void *){address}, (void *){address}, 0, (npu_i64){length}, 1}};"
                );
                self.pass("npu_i64", "1");
                self.pass("void *", format!("&{name}"));
                Ok(())
            }
            Type::Ranked {
                shape,
                element,
                layout,
                ..
            } => self.ranked(shape, &element.kind, layout),
            Type::Scalar(element) => self.scalar(&element.kind),
        }
    }

    fn ranked(
        &mut self,
        shape: &[Option<u64>],
        element: &ElementType,
        layout: &Layout,
    ) -> Result<(), String> {
        let address = self.slot();
        let mut sizes = Vec::with_capacity(shape.len());
        for dim in shape {
            sizes.push(match dim {
                // 64 bits wide: strides are products.
                Some(size) => format!(
                    "{}ll",
                    i64::try_from(*size).map_err(|_| "a dimension is too large")?
                ),
                None => format!("(npu_i64){}", self.slot()),
            });
        }
        let offset = check_contiguous(shape, layout)?;
        let base = if offset == 0 {
            format!("(void *){address}")
        } else {
            // The slot holds the address of the first element; the descriptor counts from the base.
            let size = element.size();
            format!("(char *){address} - {offset}ll * {size}")
        };
        self.pass("void *", base.clone());
        self.pass("void *", base);
        self.pass("npu_i64", offset.to_string());
        for size in &sizes {
            self.pass("npu_i64", size.clone());
        }
        for dim in 0..sizes.len() {
            let stride = match &sizes[dim + 1..] {
                [] => "1".into(),
                inner => inner.join(" * "),
            };
            self.pass("npu_i64", stride);
        }
        Ok(())
    }

    fn scalar(&mut self, element: &ElementType) -> Result<(), String> {
        let c_type = match element {
            ElementType::I1 => "_Bool",
            ElementType::I8 | ElementType::Ui8 => "npu_i8",
            ElementType::I16 | ElementType::Ui16 => "npu_i16",
            ElementType::I32 | ElementType::Ui32 => "npu_i32",
            ElementType::I64 | ElementType::Ui64 | ElementType::Index => "npu_i64",
            ElementType::F16 => "_Float16",
            ElementType::Bf16 => "__bf16",
            ElementType::F32 => "float",
            ElementType::F64 => "double",
            _ => return Err("it has no counterpart in C".into()),
        };
        let slot = self.slot();
        let name = format!("scalar{}", self.slots);
        let _ = writeln!(
            self.locals,
            "    {c_type} {name};\n    __builtin_memcpy(&{name}, &{slot}, sizeof {name});"
        );
        self.pass(c_type, name);
        Ok(())
    }

    fn text(&self, symbol: &str) -> String {
        let prototype = match self.prototype.as_slice() {
            [] => "void".into(),
            types => types.join(", "),
        };
        format!(
            "typedef __INT64_TYPE__ npu_i64;\n\
             typedef __INT32_TYPE__ npu_i32;\n\
             typedef __INT16_TYPE__ npu_i16;\n\
             typedef __INT8_TYPE__ npu_i8;\n\
             #define NPU_SLOTS {slots}\n\
             struct npu_descriptor {{\n    void *allocated, *aligned;\n    npu_i64 offset, size, stride;\n}};\n\
             extern void npu_kernel({prototype}) __asm__(\"{symbol}\");\n\
             static inline void npu_call(const __UINT64_TYPE__ *slots, const npu_i32 grid[3], const npu_i32 id[3]) {{\n\
             \x20   (void)slots, (void)grid, (void)id;\n\
             {locals}    npu_kernel({values});\n}}\n",
            slots = self.slots,
            symbol = c_string(symbol),
            locals = self.locals,
            values = self.values.join(", "),
        )
    }
}

/// A host's slice is contiguous, so a layout must be, too; gives the layout's offset in elements.
fn check_contiguous(shape: &[Option<u64>], layout: &Layout) -> Result<i64, String> {
    let (strides, offset) = match layout {
        Layout::Identity => return Ok(0),
        Layout::Strided { strides, offset } => (strides, offset),
        Layout::Other(_) => return Err("only the identity and strided layouts are known".into()),
    };
    if strides.len() != shape.len() {
        return Err("it has another number of strides than of dimensions".into());
    }
    let mut expected = Some(1i64);
    for (dim, stride) in shape.iter().zip(strides).rev() {
        if let (Some(stride), Some(expected)) = (stride, expected)
            && *stride != expected
            && *dim != Some(1)
        {
            return Err(format!(
                "its elements are not contiguous (a stride of {stride} where {expected} would be)"
            ));
        }
        let size = dim.and_then(|size| i64::try_from(size).ok());
        expected = expected
            .zip(size)
            .and_then(|(stride, size)| stride.checked_mul(size));
    }
    Ok(offset.unwrap_or(0))
}

/// The inside of a C string literal.
fn c_string(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => {
                literal.push('\\');
                literal.push(char::from(byte));
            }
            b' '..=b'~' => literal.push(char::from(byte)),
            // Three digits: an octal escape that could not swallow what follows.
            _ => {
                let _ = write!(literal, "\\{byte:03o}");
            }
        }
    }
    literal
}

#[cfg(test)]
mod tests;
