//! Problems of a vault that is not ready, and the cause of its storage.

use scrip_core::Error;

use crate::{
    app::{App, readiness::NotReadyReason},
    problem::Problem,
};

/// The problem while there is no directory.
pub(crate) fn not_ready(app: &App) -> Problem {
    Problem::NotReady(app.rejection_reason().unwrap_or(NotReadyReason::Starting))
}

/// Names the cause of an unavailable storage. Without a known cause the problem stays general, and
/// its error is logged.
pub(crate) fn name_storage_cause(app: &App, problem: Problem) -> Problem {
    let is_unavailable = matches!(problem, Problem::Failed(Error::Unavailable(_)));
    match app.storage_reason().filter(|_| is_unavailable) {
        Some(reason) => Problem::NotReady(reason),
        None => problem,
    }
}
