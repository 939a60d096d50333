//! Export of a vault and import into another one.

mod file;
mod harness;
mod interruption;
mod round_trips;
