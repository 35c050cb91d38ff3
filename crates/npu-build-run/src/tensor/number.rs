//! Numbers as people write them, and their bits as an element type has them.

use std::fmt;
use std::str::FromStr;

use npu_runtime::ElementType;
use npu_runtime::half::{bf16, f16};

use super::size;

/// The value of an element or a scalar, whatever its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of an integer type. Every one of them fits.
    Integer(i128),
    /// Written as its bits, `0xff` or `0b101`, whatever sign they stand for.
    Bits(u64),
    /// Of a floating-point type. Every value of every one of them fits.
    Float(f64),
}

/// Why a number can't be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NumberError {
    /// It is none.
    #[error("'{0}' is no number; there are 12, -3, 0xff, 1.5, 1e-3, nan, inf, true and false")]
    NotANumber(String),
    /// A fraction for an integer.
    #[error("{number} is no integer, and the type is {element}")]
    Fraction {
        /// The number.
        number: Number,
        /// The type.
        element: ElementType,
    },
    /// A float beyond all types.
    #[error("'{0}' is beyond f64, which goes from {low:e} to {high:e}; inf is infinity", low = f64::MIN, high = f64::MAX)]
    Infinite(String),
    /// A number beyond the type's.
    #[error("{number} does not fit {element}, which goes {range}")]
    Range {
        /// The number.
        number: Number,
        /// The type.
        element: ElementType,
        /// What would fit.
        range: String,
    },
}

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let wrong = || NumberError::NotANumber(text.chars().take(200).collect());
        match text {
            "true" => return Ok(Self::Integer(1)),
            "false" => return Ok(Self::Integer(0)),
            _ => {}
        }
        let (negative, magnitude) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        for (prefix, radix) in [("0x", 16), ("0b", 2)] {
            if let Some(digits) = magnitude.strip_prefix(prefix) {
                let is_digit = |digit: char| digit.is_digit(radix);
                let bits = u64::from_str_radix(digits, radix).ok();
                let bits = bits.filter(|_| digits.chars().all(is_digit));
                let bits = bits.ok_or_else(wrong)?;
                return Ok(match negative {
                    true => Self::Integer(-i128::from(bits)),
                    false => Self::Bits(bits),
                });
            }
        }
        if let Ok(value) = text.parse() {
            return Ok(Self::Integer(value));
        }
        let value: f64 = text.parse().map_err(|_| wrong())?;
        // Of digits, infinity is what is left of a number that is too large.
        if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
            return Err(NumberError::Infinite(text.chars().take(200).collect()));
        }
        Ok(Self::Float(value))
    }
}

impl Number {
    /// The bits that stand for the number, zero-extended.
    ///
    /// # Errors
    /// When the type has no such number. Fractions are rounded to the nearest that it has.
    pub fn bits(self, element: &ElementType) -> Result<u64, NumberError> {
        if let Self::Bits(bits) = self {
            return self.own_bits(bits, element);
        }
        match element {
            ElementType::F16 => self.rounded(element, |x| f16::from_f64(x).to_f64())?,
            ElementType::Bf16 => self.rounded(element, |x| bf16::from_f64(x).to_f64())?,
            ElementType::F32 => self.rounded(element, |x| f64::from(x as f32))?,
            ElementType::F64 => {}
            _ => return self.integer_bits(element),
        }
        let value = self.as_f64();
        Ok(match element {
            ElementType::F16 => f16::from_f64(value).to_bits().into(),
            ElementType::Bf16 => bf16::from_f64(value).to_bits().into(),
            ElementType::F32 => (value as f32).to_bits().into(),
            _ => value.to_bits(),
        })
    }

    fn own_bits(self, bits: u64, element: &ElementType) -> Result<u64, NumberError> {
        match mask(element) {
            mask if bits & !mask == 0 => Ok(bits),
            mask => Err(NumberError::Range {
                number: self,
                element: element.clone(),
                range: format!("from 0x0 to {mask:#x} by its bits"),
            }),
        }
    }

    /// Refuses a finite number of which rounding would make an infinite one.
    fn rounded(self, element: &ElementType, round: impl Fn(f64) -> f64) -> Result<(), NumberError> {
        let value = self.as_f64();
        if value.is_finite() && round(value).is_infinite() {
            let largest = match element {
                ElementType::F16 => f16::MAX.to_f64(),
                ElementType::Bf16 => bf16::MAX.to_f64(),
                _ => f32::MAX.into(),
            };
            return Err(NumberError::Range {
                number: self,
                element: element.clone(),
                range: format!("from {:e} to {largest:e}", -largest),
            });
        }
        Ok(())
    }

    fn integer_bits(self, element: &ElementType) -> Result<u64, NumberError> {
        // Beyond this, a float no longer has every integer.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let (low, high) = range(element);
        let value = match self {
            Self::Integer(value) => value,
            // Dealt with before.
            Self::Bits(bits) => bits.into(),
            Self::Float(value) if value.fract() == 0.0 && value.abs() <= EXACT => value as i128,
            Self::Float(_) => {
                return Err(NumberError::Fraction {
                    number: self,
                    element: element.clone(),
                });
            }
        };
        if !(low..=high).contains(&value) {
            // A larger one may be meant as the bits of a negative one, which is to be said.
            let bits = u64::try_from(value).ok();
            let bits =
                bits.filter(|bits| *element != ElementType::I1 && bits & !mask(element) == 0);
            let hint = bits.map_or_else(String::new, |bits| {
                format!(
                    " (as bits it is {bits:#x}, the same as {})",
                    Self::from_bits(element, bits)
                )
            });
            return Err(NumberError::Range {
                number: self,
                element: element.clone(),
                range: format!("from {low} to {high}{hint}"),
            });
        }
        Ok(value as u64 & mask(element))
    }

    /// The number that an element of these bits is; those beyond its size do not count.
    #[must_use]
    pub fn from_bits(element: &ElementType, bits: u64) -> Self {
        match element {
            ElementType::I1 | ElementType::Ui8 => Self::Integer((bits as u8).into()),
            ElementType::Ui16 => Self::Integer((bits as u16).into()),
            ElementType::Ui32 => Self::Integer((bits as u32).into()),
            ElementType::Ui64 => Self::Integer(bits.into()),
            ElementType::I8 => Self::Integer((bits as i8).into()),
            ElementType::I16 => Self::Integer((bits as i16).into()),
            ElementType::I32 => Self::Integer((bits as i32).into()),
            ElementType::F16 => Self::Float(f16::from_bits(bits as u16).to_f64()),
            ElementType::Bf16 => Self::Float(bf16::from_bits(bits as u16).to_f64()),
            ElementType::F32 => Self::Float(f32::from_bits(bits as u32).into()),
            ElementType::F64 => Self::Float(f64::from_bits(bits)),
            // I64 and Index, and whatever comes to be.
            _ => Self::Integer((bits as i64).into()),
        }
    }

    /// The nearest `f64`.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Bits(bits) => bits as f64,
            Self::Float(value) => value,
        }
    }
}

/// The integers of a type: signless ones are signed, as the launchers have them.
fn range(element: &ElementType) -> (i128, i128) {
    let bits = 8 * size(element);
    match element {
        ElementType::I1 => (0, 1),
        ElementType::Ui8 | ElementType::Ui16 | ElementType::Ui32 | ElementType::Ui64 => {
            (0, (1 << bits) - 1)
        }
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// The bits that an element has.
pub(super) fn mask(element: &ElementType) -> u64 {
    match element {
        ElementType::I1 => 1,
        _ => u64::MAX >> (64 - 8 * size(element)),
    }
}

/// A float is never taken for an integer: `1.0`, `1e30`, `nan`, `-inf`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Bits(bits) => write!(f, "{bits:#x}"),
            Self::Float(value) if value.is_nan() => f.write_str("nan"),
            Self::Float(value) => write!(f, "{value:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str, element: ElementType) -> Result<u64, NumberError> {
        text.parse::<Number>()?.bits(&element)
    }

    /// The bits are those of IEEE 754 and of two's complement.
    #[test]
    fn a_number_has_the_bits_that_its_type_gives_it() {
        for (text, element, expected) in [
            ("-1", ElementType::I8, 0xff),
            ("0xff", ElementType::I8, 0xff),
            ("127", ElementType::I8, 0x7f),
            ("-32768", ElementType::I16, 0x8000),
            ("0xffffffff", ElementType::I32, 0xffff_ffff),
            ("-0x80", ElementType::I64, 0xffff_ffff_ffff_ff80),
            ("0xffffffffffffffff", ElementType::Index, u64::MAX),
            ("18446744073709551615", ElementType::Ui64, u64::MAX),
            ("0b101", ElementType::Ui16, 5),
            ("1e3", ElementType::I32, 1000),
            ("true", ElementType::I1, 1),
            ("false", ElementType::I1, 0),
            ("1", ElementType::F16, 0x3c00),
            ("65504", ElementType::F16, 0x7bff),
            ("1.5", ElementType::Bf16, 0x3fc0),
            ("-2", ElementType::F32, 0xc000_0000),
            ("0.1", ElementType::F32, 0x3dcc_cccd),
            ("inf", ElementType::Bf16, 0x7f80),
            ("-inf", ElementType::F32, 0xff80_0000),
            ("0x3f800000", ElementType::F32, 0x3f80_0000),
            ("0x7e00", ElementType::F16, 0x7e00),
        ] {
            assert_eq!(
                bits(text, element.clone()),
                Ok(expected),
                "{text} {element}"
            );
        }
        let nan = bits("nan", ElementType::F16).unwrap();
        assert!(f16::from_bits(nan as u16).is_nan());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (text, element) in [
            ("128", ElementType::I8),
            ("0x100", ElementType::I8),
            ("0x1ffffffff", ElementType::F32),
            ("3000000000", ElementType::I32),
            ("3e9", ElementType::I32),
            ("9223372036854775808", ElementType::Index),
            ("0b10", ElementType::I1),
            ("1e400", ElementType::F64),
            ("-1e400", ElementType::F32),
            ("-129", ElementType::I8),
            ("-1", ElementType::Ui32),
            ("4294967296", ElementType::Ui32),
            ("2", ElementType::I1),
            ("1.5", ElementType::I32),
            ("nan", ElementType::I32),
            ("1e300", ElementType::I64),
            ("65520", ElementType::F16),
            ("1e39", ElementType::F32),
            ("3.4e38999", ElementType::I64),
        ] {
            assert!(bits(text, element.clone()).is_err(), "{text} {element}");
        }
        for text in [
            "", "-", "0x", "0x-5", "0b2", "1.2.3", "one", "--1", "1_000", "0xg", "+0x1",
        ] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
    }

    #[test]
    fn bits_are_read_as_the_type_means_them() {
        let read = Number::from_bits;
        assert_eq!(read(&ElementType::I8, 0xff), Number::Integer(-1));
        assert_eq!(read(&ElementType::Ui8, 0xff), Number::Integer(255));
        assert_eq!(read(&ElementType::Index, u64::MAX), Number::Integer(-1));
        assert_eq!(read(&ElementType::Bf16, 0xc040), Number::Float(-3.0));
        assert_eq!(
            read(&ElementType::F16, 0x3555),
            Number::Float(0.333_251_953_125)
        );
    }
}
