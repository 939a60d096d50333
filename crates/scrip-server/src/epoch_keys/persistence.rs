//! Whether a Redis writes to a disk what it is given. A key that was destroyed could be found there
//! by whoever also has the root key.

use std::fmt;

use redis::{ErrorKind, RedisError, RedisResult, aio::ConnectionLike, cmd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    Off,
    /// Snapshots, or a log of writes.
    On,
    /// It has replicas: to bring one up to date, both may write all of it to a disk.
    Replicated,
    /// It does not let itself be asked, as those that others run mostly do not.
    Unknown,
}

/// # Errors
/// It did not answer, or it is a copy of another one, to which nothing can be written.
pub(super) async fn detect_persistence(
    connection: &mut impl ConnectionLike,
) -> RedisResult<Persistence> {
    let role: String = cmd("INFO").arg("replication").query_async(connection).await?;
    if info_field(&role, "role") == Some("slave") {
        return Err(RedisError::from((ErrorKind::Client, "is a replica")));
    }
    if info_field(&role, "connected_slaves").is_some_and(|it| it != "0") {
        return Ok(Persistence::Replicated);
    }
    let save = read_setting(connection, "save").await?;
    let log = read_setting(connection, "appendonly").await?;
    if let (Some(save), Some(log)) = (save, log) {
        let off = save.trim().is_empty() && log == "no";
        return Ok(if off { Persistence::Off } else { Persistence::On });
    }
    // This tells of a log, but not whether snapshots are on.
    let info: String = cmd("INFO").arg("persistence").query_async(connection).await?;
    let log = info_field(&info, "aof_enabled") == Some("1");
    Ok(if log { Persistence::On } else { Persistence::Unknown })
}

/// Nothing where it may not be asked for.
///
/// # Errors
/// It did not answer.
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

/// Of what `INFO` says.
fn info_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'))
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "it keeps nothing on a disk",
            Self::On => {
                "it keeps what it is given on a disk, where a key that was destroyed could be found; \
                 turn that off (save \"\" and appendonly no), or say cvc.epoch_keys_on_disk = true \
                 if that is meant"
            }
            Self::Replicated => {
                "it has replicas, and to bring one up to date what it is given may be written to a \
                 disk here and there; use one without replicas, or say cvc.epoch_keys_on_disk = true \
                 if that is meant"
            }
            Self::Unknown => {
                "it does not tell whether it keeps what it is given on a disk (CONFIG GET is \
                 refused); if it does not, or if that is meant, say cvc.epoch_keys_on_disk = true"
            }
        })
    }
}

/// What time Redis says it is, to the second; nothing when it does not answer.
pub async fn redis_time_ms(connection: &mut impl ConnectionLike) -> Option<i64> {
    let (seconds, _): (i64, i64) = cmd("TIME").query_async(connection).await.ok()?;
    Some(seconds.saturating_mul(1000))
}
