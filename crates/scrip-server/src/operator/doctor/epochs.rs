//! Whether the Redis that has the keys of card verification codes is fit for them.

use redis::{aio::MultiplexedConnection, cmd};
use scrip_core::time::Clock;

use super::{Finding, bad, good, warning};
use crate::{
    clock::SystemClock,
    config::{EpochKeysAt, Settings},
    epochs::{
        check_sharing,
        persistence::{Persistence, setting},
        shared::{SharedKeys, Unfit},
    },
};

const CHECK: &str = "epoch keys";
/// A key lives for a quarter of an hour at least; this is noticed long before it costs one.
const DRIFT_MS: u64 = 5_000;

pub(super) async fn epoch_keys(settings: &Settings) -> Vec<Finding> {
    let EpochKeysAt::Redis(_) = &settings.cvc.epoch_keys else {
        let unshared = check_sharing(settings).err();
        return unshared.map(|it| bad(CHECK, it.to_string())).into_iter().collect();
    };
    let client = match settings.cvc.client() {
        Ok(client) => client,
        Err(error) => return vec![bad(CHECK, format!("{error:#}"))],
    };
    let (mut connection, persistence) = match SharedKeys::look(&client).await {
        Ok(found) => found,
        Err(unfit @ (Unfit::Away(_) | Unfit::Keeps(_))) => {
            let says = format!("Redis is away ({unfit}): codes are neither taken nor shown");
            return vec![bad(CHECK, says)];
        }
    };
    let mut findings = vec![match (persistence, settings.cvc.epoch_keys_on_disk) {
        (Persistence::Off, _) => good(CHECK, "Redis answers, and keeps nothing on a disk"),
        (kept @ (Persistence::On | Persistence::Copied | Persistence::Untold), false) => {
            bad(CHECK, kept.to_string())
        }
        (Persistence::On | Persistence::Copied | Persistence::Untold, true) => {
            warning(CHECK, "they may be on a disk, where destroyed ones could be found again")
        }
    }];
    findings.extend(eviction(&mut connection).await);
    findings.extend(drift(&mut connection).await);
    findings
}

async fn eviction(connection: &mut MultiplexedConnection) -> Option<Finding> {
    let policy = setting(connection, "maxmemory-policy").await.ok()??;
    let says = format!(
        "Redis may drop keys early when memory is short ({policy}); maxmemory-policy noeviction \
         does not"
    );
    (policy != "noeviction").then(|| warning(CHECK, says))
}

/// It ends epochs by its own clock.
async fn drift(connection: &mut MultiplexedConnection) -> Option<Finding> {
    let (seconds, _): (i64, i64) = cmd("TIME").query_async(connection).await.ok()?;
    let ours = SystemClock.now().unix_ms;
    let apart = ours.abs_diff(seconds.saturating_mul(1000));
    let says = "the clock of Redis and this machine's are seconds apart; set them";
    (apart > DRIFT_MS).then(|| warning(CHECK, says))
}
