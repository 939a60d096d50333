//! Whether the Redis that has the keys of card verification codes is fit for them.

use scrip_core::time::Clock;

use super::{Finding, failed, passed, warning};
use scrip_server::{
    config::{EpochKeyLocation, Settings},
    epoch_keys::{
        check_sharing,
        persistence::{Persistence, read_setting, redis_time_ms},
        redis_exchange::{RedisKeyExchange, RedisUnusable},
    },
    process::clock::SystemClock,
};

const CHECK: &str = "epoch keys";
/// A key lives for a quarter of an hour at least; this is noticed long before it costs one.
const DRIFT_MS: u64 = 5_000;

pub(super) async fn check_epoch_keys(settings: &Settings) -> Vec<Finding> {
    let EpochKeyLocation::Redis(_) = &settings.cvc.epoch_keys else {
        let unshared = check_sharing(settings).err();
        return unshared.map(|it| failed(CHECK, it.to_string())).into_iter().collect();
    };
    let client = match settings.cvc.client() {
        Ok(client) => client,
        Err(error) => return vec![failed(CHECK, format!("{error:#}"))],
    };
    let (mut connection, persistence) = match RedisKeyExchange::probe(&client).await {
        Ok(found) => found,
        Err(unfit @ (RedisUnusable::Unavailable(_) | RedisUnusable::Persistent(_))) => {
            let says = format!("Redis is away ({unfit}): codes are neither taken nor shown");
            return vec![failed(CHECK, says)];
        }
    };
    let mut findings = vec![match (persistence, settings.cvc.epoch_keys_on_disk) {
        (Persistence::Off, _) => passed(CHECK, "Redis answers, and keeps nothing on a disk"),
        (kept @ (Persistence::On | Persistence::Replicated | Persistence::Unknown), false) => {
            failed(CHECK, kept.to_string())
        }
        (Persistence::On | Persistence::Replicated | Persistence::Unknown, true) => {
            warning(CHECK, "they may be on a disk, where destroyed ones could be found again")
        }
    }];
    let policy = read_setting(&mut connection, "maxmemory-policy").await.ok().flatten();
    findings.extend(policy.and_then(|it| check_eviction_policy(&it)));
    findings.extend(redis_time_ms(&mut connection).await.and_then(check_clock_drift));
    findings
}

fn check_eviction_policy(policy: &str) -> Option<Finding> {
    let says = format!(
        "Redis may drop keys early when memory is short ({policy}); maxmemory-policy noeviction \
         does not"
    );
    (policy != "noeviction").then(|| warning(CHECK, says))
}

/// It ends epochs by its own clock.
fn check_clock_drift(clock_ms: i64) -> Option<Finding> {
    let drift = SystemClock.now().unix_ms.abs_diff(clock_ms);
    let says = "the clock of Redis and this machine's are seconds apart; set them";
    (drift > DRIFT_MS).then(|| warning(CHECK, says))
}
