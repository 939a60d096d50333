//! Export of a vault and import into another one.

mod broken;
mod file;
mod harness;
mod moves;
