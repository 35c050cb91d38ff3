//! aie-hsaco and aie-hsaco-dump. Dialect 1 takes the user's word on columns, as the packer of mid
//! 2026 does; dialect 2 checks it, as the newest.

mod container;
pub mod dump;
pub mod pack;
