//! What measurements are made with: servers, load, and figures of both.

pub(crate) mod bare;
pub(crate) mod chance;
pub(crate) mod clock;
pub(crate) mod figures;
pub(crate) mod load;
pub(crate) mod process;
pub(crate) mod script;
