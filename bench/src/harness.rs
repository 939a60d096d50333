//! The measurement tools: servers, load generator and results.

pub(crate) mod bare_server;
pub(crate) mod call_script;
pub(crate) mod clock;
pub(crate) mod load;
pub(crate) mod management;
pub(crate) mod nginx;
pub(crate) mod output;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod results;
pub(crate) mod script;
pub(crate) mod target;
pub(crate) mod webhook_receiver;
