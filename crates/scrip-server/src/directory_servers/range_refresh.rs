//! Refreshes the card ranges of a scheme: at start and then about daily. Ranges stay in force until
//! the next successful fetch.

use std::{sync::Arc, time::Duration};

use scrip_core::Vault;
use tokio::time::sleep;

use crate::directory_servers::{
    ranges::RangeFetchError, scheme_client::ConnectedScheme, transport::tenant_kind_name,
};

const PAUSE_MIN: Duration = Duration::from_secs(2);
/// EMV allows a directory server to reject more frequent requests.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// Fetches the ranges periodically, and more often after a failure. Ends with the runtime.
pub(crate) async fn refresh_periodically(
    vault: Vault,
    connected_scheme: Arc<dyn ConnectedScheme>,
    every: Duration,
) {
    let mut failures = 0_u32;
    loop {
        let (scheme, tenant_type) =
            (connected_scheme.scheme().name(), tenant_kind_name(connected_scheme.kind()));
        let refreshed = connected_scheme.refresh_ranges(vault.clock.now()).await;
        match &refreshed {
            Ok(count) => {
                failures = 0;
                let ranges = if *count == 1 { "range" } else { "ranges" };
                tracing::info!(scheme, tenant_type, "fetched {count} card {ranges} of {scheme}");
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                let (cause, current_ranges) =
                    (failure.to_string(), connected_scheme.ranges().map(|it| it.len()));
                tracing::warn!(
                    scheme,
                    tenant_type,
                    cause,
                    current_ranges,
                    "fetching card ranges failed; the current ranges stay in force"
                );
            }
        }
        let random = random_byte(vault.fill_random).await;
        sleep(next_pause(refreshed.as_ref().err(), failures, every, random)).await;
    }
}

/// Returns a random byte. The first one of a process takes 40 ms, so it is not drawn on a thread that
/// serves requests.
async fn random_byte(fill_random: fn(&mut [u8])) -> u8 {
    let draw = move || {
        let mut bytes = [0; 1];
        fill_random(&mut bytes);
        bytes
    };
    // The task is cancelled only when the runtime ends.
    let [byte] = tokio::task::spawn_blocking(draw).await.unwrap_or_default();
    byte
}

/// Returns the pause before the next fetch. It has a jitter of up to a tenth, so that servers do
/// not send requests at the same time.
fn next_pause(
    failure: Option<&RangeFetchError>,
    failures: u32,
    every: Duration,
    jitter: u8,
) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let jitter_of = |it: Duration| (it / 10).saturating_mul(u32::from(jitter)) / u32::from(u8::MAX);
    match failure {
        // Jitter makes the pause shorter: EMV allows at most one day.
        None => every.saturating_sub(jitter_of(every)),
        Some(RangeFetchError::RateLimited) => PAUSE_MAX.saturating_add(jitter_of(PAUSE_MAX)),
        Some(
            RangeFetchError::NoResponse(..)
            | RangeFetchError::ErrorResponse(_)
            | RangeFetchError::InvalidResponse(_),
        ) => {
            let pause = PAUSE_MIN.saturating_mul(factor).min(PAUSE_MAX);
            pause.saturating_sub(jitter_of(pause))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn retry_pause_grows_up_to_a_maximum() {
        let failure = RangeFetchError::ErrorResponse("404".to_owned());
        let seconds =
            |failures, random| next_pause(Some(&failure), failures, DAY, random).as_secs_f64();
        assert_eq!(
            [1, 2, 3, 11, 12, 99].map(|it| seconds(it, 0)),
            [2., 4., 8., 2048., 3600., 3600.]
        );
        assert_eq!([1, 2, 99].map(|it| seconds(it, u8::MAX)), [1.8, 3.6, 3240.]);
    }

    #[test]
    fn rate_limited_scheme_receives_no_request_within_an_hour() {
        for random in [0, 100, u8::MAX] {
            let pause = next_pause(Some(&RangeFetchError::RateLimited), 1, DAY, random);
            assert!((PAUSE_MAX..=PAUSE_MAX * 11 / 10).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn ranges_are_refreshed_before_they_reach_their_maximum_age() {
        for random in [0, 100, u8::MAX] {
            let pause = next_pause(None, 0, DAY, random);
            assert!((DAY * 9 / 10..=DAY).contains(&pause), "{pause:?}");
        }
    }
}
