//! The catalog of connection formulas. The same for every tenant, so nothing is looked up.

use crate::{
    route::{Asked, Handling},
    wire::{answer, connection_formula},
};

pub(crate) fn list(_: Asked) -> Handling {
    Box::pin(async { Ok(answer::json(200, connection_formula::catalog())) })
}
