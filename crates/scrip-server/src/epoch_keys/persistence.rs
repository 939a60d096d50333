//! Detects whether a Redis writes its data to a disk. Destroyed keys could be recovered there and
//! decrypted with the root key.

use std::fmt;

use redis::{ErrorKind, RedisError, RedisResult, aio::ConnectionLike, cmd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    Off,
    /// Snapshots or an append-only file are on.
    On,
    /// Redis has replicas: a full synchronization may write all data to a disk on both sides.
    Replicated,
    /// The configuration cannot be read, as with most managed services.
    Unknown,
}

/// Reads from the configuration of Redis whether it writes data to a disk.
/// Errors: redis does not respond, or is a read-only replica.
pub(super) async fn detect_persistence(
    connection: &mut impl ConnectionLike,
) -> RedisResult<Persistence> {
    let replication_info: String = cmd("INFO").arg("replication").query_async(connection).await?;
    if info_field(&replication_info, "role") == Some("slave") {
        return Err(RedisError::from((ErrorKind::Client, "is a replica")));
    }
    if info_field(&replication_info, "connected_slaves").is_some_and(|it| it != "0") {
        return Ok(Persistence::Replicated);
    }
    let snapshots = read_setting(connection, "save").await?;
    let append_only = read_setting(connection, "appendonly").await?;
    if let (Some(snapshots), Some(append_only)) = (snapshots, append_only) {
        let is_off = snapshots.trim().is_empty() && append_only == "no";
        return Ok(if is_off { Persistence::Off } else { Persistence::On });
    }
    // `INFO` reports the append-only file, but not whether snapshots are on.
    let persistence_info: String = cmd("INFO").arg("persistence").query_async(connection).await?;
    let append_only = info_field(&persistence_info, "aof_enabled") == Some("1");
    Ok(if append_only { Persistence::On } else { Persistence::Unknown })
}

/// Reads a setting of Redis. Returns `None` if reading the setting is denied.
/// Errors: redis does not respond.
pub async fn read_setting(
    connection: &mut impl ConnectionLike,
    name: &str,
) -> RedisResult<Option<String>> {
    let response = cmd("CONFIG").arg("GET").arg(name).query_async::<Vec<String>>(connection).await;
    match response {
        Ok(pairs) => Ok(pairs.into_iter().nth(1)),
        Err(error) if error.is_io_error() || error.is_timeout() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns a field of an `INFO` response.
fn info_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'))
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "it stores nothing on a disk",
            Self::On => {
                "it stores data on a disk, so destroyed keys could be recovered; turn persistence \
                 off (save \"\" and appendonly no), or set cvc.allow_epoch_keys_on_disk = true to \
                 accept this"
            }
            Self::Replicated => {
                "it has replicas, and a synchronization may write its data to a disk on both \
                 sides; use a Redis without replicas, or set cvc.allow_epoch_keys_on_disk = true \
                 to accept this"
            }
            Self::Unknown => {
                "it does not report whether it stores data on a disk (CONFIG GET is denied); if it \
                 does not, or if you accept this, set cvc.allow_epoch_keys_on_disk = true"
            }
        })
    }
}

/// Returns the time of Redis, rounded down to a second; `None` if Redis does not respond.
pub async fn redis_time_ms(connection: &mut impl ConnectionLike) -> Option<i64> {
    let (seconds, _): (i64, i64) = cmd("TIME").query_async(connection).await.ok()?;
    Some(seconds.saturating_mul(1000))
}
