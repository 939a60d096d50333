//! The catalog of connection formulas. The same for every tenant, so nothing is looked up.

use crate::{
    route::{Asked, Handled},
    wire::{answer, connection_formula},
};

pub(crate) async fn list(_: Asked) -> Handled {
    Ok(answer::json(200, connection_formula::catalog()))
}
