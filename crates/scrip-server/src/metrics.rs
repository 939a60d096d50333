//! The page of metrics: what is counted, who may read it, and the listener that serves it.

pub mod access;
mod collect;
pub mod key;
pub mod listener;
mod own_process;
mod page;
mod table;
