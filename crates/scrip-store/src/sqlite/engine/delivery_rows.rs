//! The statements that insert deliveries of events.

use crate::shared::deliveries::insert_delivery_columns;

/// A new delivery is due at once.
macro_rules! insert_delivery {
    ($name:literal, $conflict:literal) => {
        concat!(
            "-- ",
            $name,
            "\nINSERT INTO deliveries (",
            insert_delivery_columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, 'pending', $5, 0, $5)",
            $conflict
        )
    };
}

pub(crate) const INSERT_DELIVERY: &str = insert_delivery!("insert_delivery", "");

/// The row exists already if the process stopped after an earlier copy.
pub(crate) const COPY_DELIVERY: &str =
    insert_delivery!("copy_delivery", " ON CONFLICT (tenant, webhook, event) DO NOTHING");

pub(crate) const STATEMENTS: &[&str] = &[INSERT_DELIVERY, COPY_DELIVERY];
