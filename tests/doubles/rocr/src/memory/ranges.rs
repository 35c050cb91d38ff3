//! What the driver knows of addresses: the ranges that are registered with it, sorted and disjoint.

use crate::abi::Status;

/// What lies in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An allocation of a pool of the CPU, which the device cannot reach.
    System,
    /// An allocation of the kernarg pool.
    Kernarg,
    /// An allocation of the device heap.
    Heap,
    /// An allocation of the data pool.
    Data,
    /// A mapping.
    Mapped,
}

/// Registered memory.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Its first address.
    pub start: usize,
    /// The address behind its last.
    pub end: usize,
    /// Where the device sees the first.
    pub device: usize,
    /// What it is.
    pub place: Place,
    /// What the device may do: bit 0 read, bit 1 write.
    pub permissions: u32,
}

/// The registered ranges.
#[derive(Debug, Default)]
pub struct Ranges(Vec<Range>);

/// A part of a range, where the device sees it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its first byte.
    pub device: usize,
    /// How many.
    pub size: usize,
    /// Whether the device may write it.
    pub writable: bool,
}

impl Ranges {
    /// Registers a range.
    pub fn add(&mut self, range: Range) {
        let at = self.0.partition_point(|r| r.start < range.start);
        self.0.insert(at, range);
    }

    /// Forgets the range that starts there.
    pub fn remove(&mut self, start: usize) -> Option<Range> {
        let at = self.0.binary_search_by_key(&start, |r| r.start).ok()?;
        Some(self.0.remove(at))
    }

    /// The range that starts there.
    pub fn starting(&mut self, start: usize) -> Option<&mut Range> {
        let at = self.0.binary_search_by_key(&start, |r| r.start).ok()?;
        self.0.get_mut(at)
    }

    /// The range that an address of the device's is in. The hint is where it was last time.
    pub fn find(&self, address: usize, hint: &mut usize) -> Option<&Range> {
        let within = |range: &&Range| range.start <= address && address < range.end;
        let found = match self.0.get(*hint).filter(within) {
            Some(range) => range,
            None => {
                let behind = self.0.partition_point(|r| r.start <= address);
                *hint = behind.checked_sub(1)?;
                self.0.get(*hint).filter(within)?
            }
        };
        (found.permissions != 0).then_some(found)
    }

    /// Those bytes of a registered range.
    ///
    /// # Errors
    /// 1003 if the address is not registered, 1009 if the size reaches past its range.
    pub fn part(&self, address: u64, size: u64, hint: &mut usize) -> Result<Part, Status> {
        let (address, size) = (address as usize, size as usize);
        let range = self.find(address, hint).ok_or(Status::INVALID_ALLOCATION)?;
        if size > range.end - address {
            return Err(Status::INVALID_PACKET_FORMAT);
        }
        Ok(Part {
            device: range.device + (address - range.start),
            size,
            writable: range.permissions & 2 != 0,
        })
    }

    /// All of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: usize, end: usize) -> Range {
        Range {
            start,
            end,
            device: start + 0x1000_0000,
            place: Place::Data,
            permissions: 3,
        }
    }

    #[test]
    fn addresses_are_found_in_their_range_alone() {
        let mut ranges = Ranges::default();
        for (start, end) in [(300, 400), (100, 200), (200, 250)] {
            ranges.add(range(start, end));
        }
        let mut hint = 0;
        for (address, start) in [
            (100, Some(100)),
            (199, Some(100)),
            (200, Some(200)),
            (250, None),
            (399, Some(300)),
            (400, None),
            (99, None),
        ] {
            assert_eq!(ranges.find(address, &mut hint).map(|r| r.start), start);
        }
    }

    #[test]
    fn a_part_ends_within_its_range() {
        let mut ranges = Ranges::default();
        ranges.add(range(100, 200));
        let part = |address, size| ranges.part(address, size, &mut 0).map(|part| part.device);
        assert_eq!(part(150, 50), Ok(0x1000_0000 + 150));
        assert_eq!(part(150, 51), Err(Status::INVALID_PACKET_FORMAT));
        assert_eq!(part(150, u64::MAX), Err(Status::INVALID_PACKET_FORMAT));
        assert_eq!(part(200, 0), Err(Status::INVALID_ALLOCATION));
    }

    #[test]
    fn what_the_device_may_not_touch_is_as_if_unregistered() {
        let mut ranges = Ranges::default();
        ranges.add(Range {
            permissions: 0,
            ..range(100, 200)
        });
        assert!(ranges.part(100, 1, &mut 0).is_err());
    }
}
