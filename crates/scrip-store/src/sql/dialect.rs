//! What both engines do, each in its own way, so that a store trait is implemented once for both.

use scrip_core::{error::Error, store::ChangeOutcome};

/// Deletes some of the rows that meet a condition: by its first parameter, and so many at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeleteSome {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
    pub(crate) sqlite_rows_max: i64,
    pub(crate) postgres_rows_max: i64,
}

/// Makes a [`DeleteSome`] of a name, a table and a condition, or the statement of one engine. Rows are
/// named by a key of the engine's own. In PostgreSQL, whoever else deletes at the same time deletes
/// others.
macro_rules! delete_some {
    (
        $name:literal, $table:literal, $condition:literal,
        sqlite: $sqlite_key:literal up to $sqlite_rows_max:literal,
        postgres: $postgres_key:literal up to $postgres_rows_max:literal $(,)?
    ) => {
        $crate::sql::DeleteSome {
            sqlite: $crate::sql::delete_some!(sqlite, $name, $table, $condition, $sqlite_key),
            postgres: $crate::sql::delete_some!(postgres, $name, $table, $condition, $postgres_key),
            sqlite_rows_max: $sqlite_rows_max,
            postgres_rows_max: $postgres_rows_max,
        }
    };
    (sqlite, $name:expr, $table:literal, $condition:literal, $key:literal) => {
        $crate::sql::delete_some!($name, $table, $condition, $key, "")
    };
    (postgres, $name:expr, $table:literal, $condition:literal, $key:literal) => {
        $crate::sql::delete_some!($name, $table, $condition, $key, " FOR UPDATE SKIP LOCKED")
    };
    ($name:expr, $table:literal, $condition:literal, $key:literal, $lock:literal) => {
        concat!(
            "-- ",
            $name,
            "\nDELETE FROM ",
            $table,
            " WHERE (",
            $key,
            ") IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE ",
            $condition,
            " LIMIT $2",
            $lock,
            ")"
        )
    };
}
pub(crate) use delete_some;

/// What a transaction gives, which says whether its writes are kept.
pub(crate) trait Outcome {
    fn is_kept(&self) -> bool {
        true
    }
}

impl Outcome for () {}

impl Outcome for usize {}

/// What has changed meanwhile was left as it is.
impl Outcome for ChangeOutcome {
    fn is_kept(&self) -> bool {
        *self == Self::Done
    }
}

impl<T: Outcome> Outcome for Result<T, Error> {
    fn is_kept(&self) -> bool {
        self.as_ref().is_ok_and(Outcome::is_kept)
    }
}

/// Implements a store trait for both engines by the same methods. Each engine has its own `of`,
/// `write` and so on, which they call.
macro_rules! for_both_engines {
    (impl $store:ident { $($methods:tt)* }) => {
        impl $store for $crate::sqlite::SqliteStore { $($methods)* }

        impl $store for $crate::postgres::PostgresStore { $($methods)* }
    };
}
pub(crate) use for_both_engines;
