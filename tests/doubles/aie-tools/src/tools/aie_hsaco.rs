pub mod pack { pub fn run(_: &crate::run::Run) -> crate::run::Result { Ok(()) } }
pub mod dump { pub fn run(_: &crate::run::Run) -> crate::run::Result { Ok(()) } }
