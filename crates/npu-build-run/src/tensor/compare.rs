//! Whether memory is what it was expected to be, and where and by how much it is not.

use super::{Elements, Number};

/// How far elements may be from what was expected: by `atol + rtol * |expected|`, as NumPy's
/// `isclose` has it. Integers have no use for `rtol`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// In parts of the expected value.
    pub rtol: f64,
    /// As a number.
    pub atol: f64,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// How many elements were compared.
    pub elements: usize,
    /// How many of them are too far off.
    pub differing: usize,
    /// The first and the largest of those differences.
    pub worst: Option<[Difference; 2]>,
}

/// An element that is too far off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Its position in row-major order.
    pub index: usize,
    /// What is there.
    pub found: Number,
    /// What should be there.
    pub expected: Number,
    /// The distance between the two: infinite if only one of them is a number, or finite.
    pub distance: f64,
}

impl Comparison {
    /// Compares elements of one type, of which there are equally many. NaN is equal to NaN, and 0
    /// to -0.
    #[must_use]
    pub fn of(found: Elements<'_>, expected: Elements<'_>, tolerance: Tolerance) -> Self {
        let mut comparison = Self {
            elements: found.len(),
            differing: 0,
            worst: None,
        };
        // Most of the time there is nothing to look for.
        if found.bytes() == expected.bytes() {
            return comparison;
        }
        for (index, (found, expected)) in found.iter().zip(expected.iter()).enumerate() {
            let Some(distance) = tolerance.exceeded(found, expected) else {
                continue;
            };
            let here = Difference {
                index,
                found,
                expected,
                distance,
            };
            comparison.differing += 1;
            let [_, largest] = comparison.worst.get_or_insert([here, here]);
            if here.distance > largest.distance {
                *largest = here;
            }
        }
        comparison
    }

    /// Whether nothing is too far off.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.differing == 0
    }
}

impl Difference {
    /// The element's position in each dimension.
    #[must_use]
    pub fn position(&self, shape: &[usize]) -> Vec<usize> {
        let mut rest = self.index;
        let mut position: Vec<_> = (shape.iter().rev())
            .map(|dim| {
                let at = rest.checked_rem(*dim).unwrap_or(0);
                rest = rest.checked_div(*dim).unwrap_or(0);
                at
            })
            .collect();
        position.reverse();
        position
    }
}

impl Tolerance {
    /// The distance of two numbers, if it is too large.
    fn exceeded(self, found: Number, expected: Number) -> Option<f64> {
        match (found, expected) {
            (Number::Integer(found), Number::Integer(expected)) => {
                let distance = found.abs_diff(expected) as f64;
                (found != expected && distance > self.atol).then_some(distance)
            }
            (found, expected) => {
                let (found, expected) = (found.as_f64(), expected.as_f64());
                if found == expected || found.is_nan() && expected.is_nan() {
                    return None;
                }
                if !found.is_finite() || !expected.is_finite() {
                    return Some(f64::INFINITY);
                }
                let distance = (found - expected).abs();
                let allowed = self.atol + self.rtol * expected.abs();
                (distance > allowed).then_some(distance)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npu_runtime::ElementType;

    fn floats(found: &[f32], expected: &[f32], rtol: f64, atol: f64) -> Comparison {
        let bytes =
            |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|x| x.to_ne_bytes()).collect() };
        let (found, expected) = (bytes(found), bytes(expected));
        let of = |bytes| Elements::new(&ElementType::F32, bytes);
        Comparison::of(of(&found), of(&expected), Tolerance { rtol, atol })
    }

    fn bytes(found: &[i8], expected: &[i8], atol: f64) -> Comparison {
        let raw = |values: &[i8]| -> Vec<u8> { values.iter().map(|x| *x as u8).collect() };
        let (found, expected) = (raw(found), raw(expected));
        let of = |bytes| Elements::new(&ElementType::I8, bytes);
        let tolerance = Tolerance { rtol: 1.0, atol };
        Comparison::of(of(&found), of(&expected), tolerance)
    }

    #[test]
    fn without_a_tolerance_it_is_exact() {
        assert!(floats(&[1.0, 0.0], &[1.0, -0.0], 0.0, 0.0).is_equal());
        assert_eq!(floats(&[1.0 + f32::EPSILON], &[1.0], 0.0, 0.0).differing, 1);
    }

    #[test]
    fn the_tolerance_is_relative_to_what_was_expected() {
        // 110 is within 10 % of 100; 100 is not within 9 % of 110.
        assert!(floats(&[110.0], &[100.0], 0.1, 0.0).is_equal());
        assert!(!floats(&[100.0], &[110.0], 0.09, 0.0).is_equal());
        assert!(floats(&[0.5], &[0.0], 0.0, 0.5).is_equal());
        assert!(!floats(&[0.5], &[0.0], 1e9, 0.4).is_equal());
    }

    #[test]
    fn what_is_no_number_equals_itself_only() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert!(floats(&[nan, inf, -inf], &[-nan, inf, -inf], 0.0, 0.0).is_equal());
        let different = floats(&[nan, 1.0, inf, inf], &[1.0, nan, -inf, 1.0], 1.0, 1e30);
        assert_eq!(different.differing, 4);
        assert!(different.worst.unwrap()[1].distance.is_infinite());
    }

    #[test]
    fn integers_are_exact_unless_a_number_is_allowed() {
        assert_eq!(bytes(&[1, -1, 100], &[1, -2, 101], 0.0).differing, 2);
        assert!(bytes(&[1, -1, 100], &[1, -2, 101], 1.0).is_equal());
        // No overflow on the way.
        assert_eq!(
            bytes(&[-128], &[127], 0.0).worst.unwrap()[0].distance,
            255.0
        );
    }

    #[test]
    fn the_first_and_the_largest_are_told() {
        let found = floats(
            &[1.0, 2.5, 3.0, 0.0, 5.5],
            &[1.0, 2.0, 3.0, 4.0, 5.0],
            0.0,
            0.0,
        );
        assert_eq!((found.elements, found.differing), (5, 3));
        let [first, largest] = found.worst.unwrap();
        assert_eq!((first.index, first.distance), (1, 0.5));
        assert_eq!((largest.index, largest.distance), (3, 4.0));
        assert_eq!(largest.found, Number::Float(0.0));
        assert_eq!(largest.position(&[5]), [3]);
        assert_eq!(
            Difference {
                index: 23,
                ..largest
            }
            .position(&[2, 3, 4]),
            [1, 2, 3]
        );
        assert_eq!(
            Difference {
                index: 0,
                ..largest
            }
            .position(&[]),
            [0; 0]
        );
    }
}
