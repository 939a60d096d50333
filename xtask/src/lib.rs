//! Facts about the source code: the modules of a crate, which file imports which, the shape of
//! functions, and the size of the code. The tidy tests turn these facts into rules.

pub mod imports;
pub mod modules;
pub mod names;
pub mod parameters;
pub mod prose;
pub mod sources;
pub mod statistics;
