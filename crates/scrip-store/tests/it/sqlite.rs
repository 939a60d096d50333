//! The embedded engine alone.

pub(crate) mod altered;
mod backup;
mod destroyed;
mod groups;
mod measures;
mod second_process;
mod store;
mod sweeps;
