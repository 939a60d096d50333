//! Facts about the source code: modules, imports, names, function parameters and sizes. The tidy
//! tests turn these facts into rules.

pub mod graph;
pub mod layers;
pub mod lines;
pub mod modules;
pub mod names;
pub mod parameters;
pub mod prose;
pub mod sources;
pub mod statistics;
pub mod test_index;
