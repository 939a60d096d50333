//! Checks that the Redis for CVC epoch keys is suitable.

use scrip_core::types::time::Clock;
use scrip_server::{
    clock::SystemClock,
    config::{EpochKeyLocation, Settings},
    epoch_keys::{
        check_sharing,
        redis_exchange::{
            Persistence, RedisKeyExchange, RedisUnusable, read_setting, redis_time_ms,
        },
    },
};

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

const CHECK: &str = "epoch keys";
/// A key lives for at least 15 minutes, so this drift is reported long before a key is lost.
const DRIFT_MS: u64 = 5_000;

pub(super) async fn check_epoch_keys(settings: &Settings) -> Vec<Finding> {
    let EpochKeyLocation::Redis(_) = &settings.cvc.epoch_keys else {
        let error = check_sharing(settings).err();
        return error.map(|it| failed(CHECK, it.to_string())).into_iter().collect();
    };
    let client = match settings.cvc.client() {
        Ok(client) => client,
        Err(error) => return vec![failed(CHECK, format!("{error:#}"))],
    };
    let (mut connection, persistence) = match RedisKeyExchange::probe(&client).await {
        Ok(probe_result) => probe_result,
        Err(error @ (RedisUnusable::Unavailable(_) | RedisUnusable::Persistent(_))) => {
            let message = format!(
                "Redis is unavailable ({error}): nodes use the keys in their memory until these \
                 expire; after that, CVCs are neither stored nor returned"
            );
            return vec![failed(CHECK, message)];
        }
    };
    let mut findings = vec![match (persistence, settings.cvc.allow_epoch_keys_on_disk) {
        (Persistence::Off, _) => passed(CHECK, "Redis responds and stores nothing on a disk"),
        (
            persistence @ (Persistence::On | Persistence::Replicated | Persistence::Unknown),
            false,
        ) => failed(CHECK, persistence.to_string()),
        (Persistence::On | Persistence::Replicated | Persistence::Unknown, true) => {
            warning(CHECK, "Redis may store keys on a disk; destroyed keys may be recoverable")
        }
    }];
    if let Err(error) = RedisKeyExchange::check_rights(&mut connection).await {
        let message = format!("Redis accepts no epoch keys ({error}), so requests with a CVC fail");
        findings.push(failed(CHECK, message));
    }
    let policy = read_setting(&mut connection, "maxmemory-policy").await.ok().flatten();
    findings.extend(policy.and_then(|it| check_eviction_policy(&it)));
    findings.extend(redis_time_ms(&mut connection).await.and_then(check_clock_drift));
    findings
}

fn check_eviction_policy(policy: &str) -> Option<Finding> {
    let message = format!(
        "Redis may evict keys early when memory is short ({policy}); set maxmemory-policy to \
         noeviction"
    );
    (policy != "noeviction").then(|| warning(CHECK, message))
}

/// Redis expires epochs by its own clock.
fn check_clock_drift(clock_ms: i64) -> Option<Finding> {
    let drift = SystemClock.now().unix_ms.abs_diff(clock_ms);
    let message = "the clocks of Redis and this machine differ by seconds; synchronize them";
    (drift > DRIFT_MS).then(|| warning(CHECK, message))
}
