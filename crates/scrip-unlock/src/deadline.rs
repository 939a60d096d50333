//! The time limit of one operation of a source.

use std::time::Duration;

use tokio::time::timeout;

use crate::source::UnlockError;

/// The time for one wrap or unwrap, with all requests that it needs.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// Runs an operation. After the deadline it is dropped, which closes its connection.
pub(crate) async fn with_deadline<T>(
    deadline: Duration,
    source_name: &str,
    operation: impl Future<Output = Result<T, UnlockError>>,
) -> Result<T, UnlockError> {
    match timeout(deadline, operation).await {
        Ok(result) => result,
        Err(_) => Err(UnlockError::Unavailable(format!(
            "{source_name} has not answered within {} ms",
            deadline.as_millis()
        ))),
    }
}
