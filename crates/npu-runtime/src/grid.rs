//! How many programs a launch runs.

use std::fmt;

/// The number of programs of a launch in each dimension, as Triton counts them.
///
/// A dimension may be at most `i32::MAX`, and all three together at most 2⁶³ − 1 programs. A grid
/// with a zero in it runs nothing.
///
/// ```
/// use npu_runtime::Grid;
///
/// assert_eq!(Grid::from(8), Grid { x: 8, y: 1, z: 1 });
/// assert_eq!(Grid::from((8, 2)), Grid { x: 8, y: 2, z: 1 });
/// assert_eq!(Grid::from((8, 2, 3)).programs(), Some(48));
/// assert_eq!(Grid::from([8, 0, 3]).programs(), Some(0));
/// assert_eq!(Grid::from(1 << 31).programs(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Programs along x, the fastest dimension.
    pub x: u32,
    /// Programs along y.
    pub y: u32,
    /// Programs along z.
    pub z: u32,
}

impl Grid {
    /// A single program: what a kernel without a grid is launched with.
    pub const ONE: Self = Self { x: 1, y: 1, z: 1 };

    /// The number of programs along x (0), y (1) or z (2); 1 along any other dimension.
    pub(crate) const fn size(self, axis: usize) -> u32 {
        match axis {
            0 => self.x,
            1 => self.y,
            2 => self.z,
            _ => 1,
        }
    }

    /// The number of programs; `None` where a dimension or the product is beyond the limits.
    #[must_use]
    pub const fn programs(self) -> Option<u64> {
        const LIMIT: u32 = i32::MAX.cast_unsigned();
        if self.x > LIMIT || self.y > LIMIT || self.z > LIMIT {
            return None;
        }
        // Three factors below 2³¹ are a product below 2⁹³.
        let product = self.x as u128 * self.y as u128 * self.z as u128;
        if product > i64::MAX.cast_unsigned() as u128 {
            return None;
        }
        Some(product as u64)
    }
}

impl Default for Grid {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

impl From<u32> for Grid {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Grid {
    fn from((x, y): (u32, u32)) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Grid {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self { x, y, z }
    }
}

impl From<[u32; 3]> for Grid {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

/// What a generated launcher takes as its grid: a number of programs along x, a pair, a triple, an
/// array of three, or a [`Grid`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no launch grid",
    label = "expected how many programs run: `u32`, `(u32, u32)`, `[u32; 3]` or `npu_runtime::Grid`",
    note = "convert a `usize` with `u32::try_from`; the grid comes before the kernel's own arguments"
)]
pub trait IntoGrid {
    /// The grid.
    fn into_grid(self) -> Grid;
}

macro_rules! into_grid {
    ($($of:ty),*) => {
        $(impl IntoGrid for $of {
            fn into_grid(self) -> Grid {
                self.into()
            }
        })*
    };
}

into_grid!(u32, (u32, u32), (u32, u32, u32), [u32; 3], Grid);
