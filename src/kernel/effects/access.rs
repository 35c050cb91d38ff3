//! Operations that load from memory, store to it, copy it or view it.

use super::super::overwrite;
use super::super::tokens::Kind;
use super::Walk;
use super::values::Effect;

/// What an operation does with its first operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The result is the first operand's memory.
    View,
    /// Reads the first operand.
    Load,
    /// Stores the first operand, a value, in the second.
    Store,
    /// Copies all of the first operand into all of the second.
    Copy,
    ToTensor,
    /// Asks for a shape.
    Size,
    /// As `View`, with a result only in newer releases.
    Align,
}

impl Access {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "memref.cast"
            | "memref.reinterpret_cast"
            | "memref.subview"
            | "memref.expand_shape"
            | "memref.collapse_shape"
            | "memref.memory_space_cast"
            | "memref.transpose" => Self::View,
            "memref.load"
            | "affine.load"
            | "affine.vector_load"
            | "vector.load"
            | "vector.transfer_read" => Self::Load,
            "memref.store"
            | "affine.store"
            | "affine.vector_store"
            | "vector.store"
            | "vector.transfer_write" => Self::Store,
            "memref.copy" | "bufferization.materialize_in_destination" => Self::Copy,
            "bufferization.to_tensor" => Self::ToTensor,
            "memref.dim" | "memref.rank" => Self::Size,
            "memref.assume_alignment" => Self::Align,
            _ => return None,
        })
    }

    const fn has_two_operands(self) -> bool {
        matches!(self, Self::Store | Self::Copy)
    }
}

impl Walk<'_, '_> {
    /// Loads, stores, copies and views; false if the operation is not one of them.
    pub(super) fn access(&mut self, name: &str, generic: bool, result: Option<usize>) -> bool {
        let tokens = self.context.tokens;
        let Some(access) = Access::of(name) else {
            return false;
        };
        // In both forms the operands that matter come first, and words may stand between them.
        let first = self.at + 1 + usize::from(generic);
        if tokens.kind(first) != Kind::Value {
            return false;
        }
        let mut next = first + 1;
        let mut writable = false;
        let second = if access.has_two_operands() {
            while tokens.kind(next) == Kind::Word {
                next += 1;
            }
            next += usize::from(tokens.is(next, b','));
            while tokens.kind(next) == Kind::Word {
                next += 1;
            }
            if tokens.kind(next) != Kind::Value {
                return false;
            }
            next += 1;
            Some(next - 1)
        } else {
            None
        };
        let end = self.operation_end(self.at);
        if access == Access::ToTensor {
            // The properties stand before the types, by name or under an alias that could name anything.
            let may_be =
                |i| tokens.text(i).trim_matches('"') == "writable" || tokens.kind(i) == Kind::Hash;
            writable = (next..tokens.find((next, end), b':')).any(may_be);
        }
        match (access, second, result) {
            (Access::View, _, Some(result)) => self.alias(result, first),
            (Access::View, _, None) => return false,
            (Access::Load, ..) => self.effect(first, Effect::Read),
            (Access::ToTensor, ..) if !writable => self.effect(first, Effect::Tensor),
            (Access::ToTensor, ..) => self.effect(first, Effect::Both),
            (Access::Size, ..) => {}
            (Access::Align, ..) => {
                if let Some(result) = result {
                    self.alias(result, first);
                }
            }
            (Access::Store, Some(second), _) => {
                self.effect(first, Effect::Both);
                self.effect(second, Effect::Write);
            }
            (Access::Copy, Some(second), _) => {
                self.effect(first, Effect::Read);
                let all = overwrite::copies_all(self.context, (next, end));
                let effect = self.whole(all);
                self.effect(second, effect);
            }
            (Access::Store | Access::Copy, None, _) => return false,
        }
        self.touch(next, end);
        self.at = end;
        true
    }
}
