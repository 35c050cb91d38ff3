//! Shapes and types as the command line has them: `1000xf32`, `16x16`, `bf16`.

use std::str::FromStr;

use npu_runtime::ElementType;

use npu_build::nearest;

/// As much as was said of a shape and a type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The dimensions, outermost first, if any were given.
    pub shape: Option<Vec<usize>>,
    /// The type, if one was given.
    pub element: Option<ElementType>,
}

/// Text that is no extent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no shape and type, such as 1000xf32, 16x16xbf16 or 1000{}",
    nearest::hint(.nearest.as_deref())
)]
pub struct ExtentError {
    /// The text.
    pub text: String,
    /// The type that is closest, if one is close.
    pub nearest: Option<String>,
}

/// Every type that has a size.
const TYPES: [ElementType; 14] = [
    ElementType::I1,
    ElementType::I8,
    ElementType::I16,
    ElementType::I32,
    ElementType::I64,
    ElementType::Ui8,
    ElementType::Ui16,
    ElementType::Ui32,
    ElementType::Ui64,
    ElementType::Index,
    ElementType::F16,
    ElementType::Bf16,
    ElementType::F32,
    ElementType::F64,
];

impl FromStr for Extent {
    type Err = ExtentError;

    fn from_str(text: &str) -> Result<Self, ExtentError> {
        let wrong = |nearest| ExtentError {
            text: text.chars().take(200).collect(),
            nearest,
        };
        let (mut shape, mut rest) = (Vec::new(), text);
        loop {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (dim, behind) = rest.split_at(digits);
            if dim.is_empty() {
                break;
            }
            shape.push(dim.parse().map_err(|_| wrong(None))?);
            rest = match behind.strip_prefix('x') {
                Some("") => return Err(wrong(None)),
                Some(behind) => behind,
                None if behind.is_empty() => "",
                None => return Err(wrong(None)),
            };
        }
        let named = |name: &str| TYPES.into_iter().find(|element| element.name() == name);
        let element = match rest {
            "" if shape.is_empty() => return Err(wrong(None)),
            "" => None,
            // Signed integers are the signless ones to us.
            name => match named(name.strip_prefix('s').unwrap_or(name)) {
                None => {
                    let names = TYPES.iter().map(ElementType::name);
                    return Err(wrong(nearest::of(name, names)));
                }
                known => known,
            },
        };
        Ok(Self {
            shape: (!shape.is_empty()).then_some(shape),
            element,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_part_may_be_left_out() {
        let extent = |shape: Option<&[usize]>, element| {
            Ok(Extent {
                shape: shape.map(<[usize]>::to_vec),
                element,
            })
        };
        assert_eq!("1000".parse(), extent(Some(&[1000]), None));
        assert_eq!(
            "16x4xbf16".parse(),
            extent(Some(&[16, 4]), Some(ElementType::Bf16))
        );
        assert_eq!(
            "0x3xindex".parse(),
            extent(Some(&[0, 3]), Some(ElementType::Index))
        );
        assert_eq!("f32".parse(), extent(None, Some(ElementType::F32)));
        assert_eq!("4xsi8".parse(), extent(Some(&[4]), Some(ElementType::I8)));
    }

    #[test]
    fn what_is_none_is_refused() {
        for wrong in [
            "",
            "x",
            "4x",
            "x4",
            "4xx4",
            "4 x 4",
            "-1",
            "4f32",
            "4xf",
            "99999999999999999999",
        ] {
            assert!(wrong.parse::<Extent>().is_err(), "{wrong}");
        }
        let error = "4xbf61".parse::<Extent>().unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("bf16"));
    }
}
