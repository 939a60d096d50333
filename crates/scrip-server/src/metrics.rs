//! The page of metrics: what is counted, who may read it, and the listener that serves it.

mod collect;
pub mod endpoint;
pub mod key;
pub mod listener;
mod page;
mod process_metrics;
mod table;
