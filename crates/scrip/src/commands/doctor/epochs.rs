//! Whether the Redis that has the keys of card verification codes is fit for them.

use scrip_core::time::Clock;

use super::{Finding, bad, good, warning};
use scrip_server::{
    config::{EpochKeysAt, Settings},
    epoch_keys::{
        check_sharing,
        persistence::{Persistence, clock_ms, setting},
        shared::{SharedKeys, Unfit},
    },
    process::clock::SystemClock,
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
    let policy = setting(&mut connection, "maxmemory-policy").await.ok().flatten();
    findings.extend(policy.and_then(|it| eviction(&it)));
    findings.extend(clock_ms(&mut connection).await.and_then(drift));
    findings
}

fn eviction(policy: &str) -> Option<Finding> {
    let says = format!(
        "Redis may drop keys early when memory is short ({policy}); maxmemory-policy noeviction \
         does not"
    );
    (policy != "noeviction").then(|| warning(CHECK, says))
}

/// It ends epochs by its own clock.
fn drift(clock_ms: i64) -> Option<Finding> {
    let apart = SystemClock.now().unix_ms.abs_diff(clock_ms);
    let says = "the clock of Redis and this machine's are seconds apart; set them";
    (apart > DRIFT_MS).then(|| warning(CHECK, says))
}
