//! Memory whose content follows from a rule, the same on every machine.

use npu_runtime::ElementType;

use super::elements::put;
use super::number::mask;
use super::{Number, NumberError, size};

/// A rule for all elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// The same number everywhere.
    Full(Number),
    /// 0, 1, 2, …; integers begin again where their type ends.
    Iota,
    /// Integers of their type's whole range, and floats from -1 up to 1, which follow from the seed.
    Random(u64),
}

impl Fill {
    /// Whether memory of this type can be filled.
    ///
    /// # Errors
    /// When one of the first `elements` elements would be a number that the type does not have.
    pub fn check(self, element: &ElementType, elements: usize) -> Result<(), NumberError> {
        let largest = match self {
            Self::Full(number) => number,
            Self::Iota if is_float(element) => last(elements),
            Self::Iota | Self::Random(_) => return Ok(()),
        };
        largest.bits(element).map(drop)
    }

    /// Fills memory.
    ///
    /// # Errors
    /// As [`Fill::check`].
    pub fn write(self, element: &ElementType, bytes: &mut [u8]) -> Result<(), NumberError> {
        let chunks = bytes.chunks_exact_mut(size(element));
        self.check(element, chunks.len())?;
        if let Self::Full(number) = self {
            let bits = number.bits(element)?;
            chunks.for_each(|chunk| put(bits, chunk));
            return Ok(());
        }
        for (index, chunk) in (0_u64..).zip(chunks) {
            put(self.bits(element, index)?, chunk);
        }
        Ok(())
    }

    fn bits(self, element: &ElementType, index: u64) -> Result<u64, NumberError> {
        let (integer, float) = match self {
            Self::Full(number) => return number.bits(element),
            Self::Iota => (index, index as f64),
            Self::Random(seed) => {
                let random = mixed(seed, index);
                // 53 random bits behind the point.
                let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
                (random, 2.0 * fraction - 1.0)
            }
        };
        match is_float(element) {
            true => Number::Float(float).bits(element),
            false => Ok(integer & mask(element)),
        }
    }
}

fn last(elements: usize) -> Number {
    Number::Integer(elements.saturating_sub(1) as i128)
}

fn is_float(element: &ElementType) -> bool {
    matches!(
        element,
        ElementType::F16 | ElementType::Bf16 | ElementType::F32 | ElementType::F64
    )
}

/// The number at `index` of the sequence that SplitMix64 gives for `seed` (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014).
fn mixed(seed: u64, index: u64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut z = seed.wrapping_add(STEP.wrapping_mul(index.wrapping_add(1)));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Elements;

    fn filled(fill: Fill, element: &ElementType, count: usize) -> Vec<Number> {
        let mut bytes = vec![0; count * size(element)];
        fill.write(element, &mut bytes).unwrap();
        Elements::new(element, &bytes).iter().collect()
    }

    /// The published generator's first numbers for the seed 1234567.
    #[test]
    fn random_numbers_are_those_of_splitmix64() {
        let numbers = [0, 1, 2, 3, 4].map(|index| mixed(1_234_567, index));
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn iota_counts_and_begins_again() {
        let numbers = filled(Fill::Iota, &ElementType::I8, 258);
        assert_eq!(numbers[..3], [0, 1, 2].map(Number::Integer));
        assert_eq!(numbers[127..130], [127, -128, -127].map(Number::Integer));
        assert_eq!(numbers[256], Number::Integer(0));
        let bits = filled(Fill::Iota, &ElementType::I1, 3);
        assert_eq!(bits, [0, 1, 0].map(Number::Integer));
        let halves = filled(Fill::Iota, &ElementType::Bf16, 258);
        assert_eq!(halves[257], Number::Float(256.0), "rounded to even");
    }

    #[test]
    fn a_number_that_the_type_lacks_fills_nothing() {
        let mut bytes = [7; 2];
        assert!(
            Fill::Full(Number::Integer(300))
                .write(&ElementType::I8, &mut bytes)
                .is_err()
        );
        assert_eq!(bytes, [7; 2]);
        assert!(Fill::Iota.check(&ElementType::F16, 65_504).is_ok());
        assert!(Fill::Iota.check(&ElementType::F16, 70_000).is_err());
    }

    #[test]
    fn random_floats_are_between_minus_one_and_one() {
        for element in [
            ElementType::F16,
            ElementType::Bf16,
            ElementType::F32,
            ElementType::F64,
        ] {
            let numbers = filled(Fill::Random(3), &element, 1000);
            let floats = numbers.iter().map(|number| number.as_f64());
            assert!(floats.clone().all(|x| (-1.0..=1.0).contains(&x)));
            assert!(floats.clone().any(|x| x < -0.9) && floats.clone().any(|x| x > 0.9));
        }
        assert_ne!(
            filled(Fill::Random(3), &ElementType::I32, 9),
            filled(Fill::Random(4), &ElementType::I32, 9)
        );
    }
}
