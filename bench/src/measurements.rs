//! The measurements: the vault, with a reference before and after it.

pub(crate) mod cost;
pub(crate) mod duplicates;
pub(crate) mod expressions;
pub(crate) mod guessing;
pub(crate) mod hostile;
pub(crate) mod limits;
pub(crate) mod metrics_cost;
pub(crate) mod postgres;
pub(crate) mod proxy;
mod raw;
pub(crate) mod rotation;
pub(crate) mod rounds;
pub(crate) mod start;
pub(crate) mod sweep;
pub(crate) mod webhooks;
