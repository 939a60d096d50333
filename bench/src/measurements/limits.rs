//! The cost of rate limits for a request, in this process: finding the counters and counting.

use std::{cell::Cell, hint::black_box};

use scrip_core::{
    Timestamp,
    policy::{
        rate_limit::{
            ClientNetwork, CounterDigest, EffectiveRates, RateLimitCaller, RateLimitRequest,
            RateLimitTarget, address_check, counter_checks, counters::RateLimitCounters,
        },
        tenant::quota::RateLimitShare,
    },
    types::{ApplicationKind, Operation, TenantKind},
};
use scrip_seal::{Pepper, RootKey};

use crate::measurements::expressions::nanos_per_call;

/// All values in nanoseconds.
#[derive(Debug)]
pub(crate) struct LimiterCost {
    /// The reference: the digest of the API key, which every request computes anyway.
    pub(crate) digest: f64,
    pub(crate) check_address: f64,
    pub(crate) one_address: f64,
    pub(crate) many_addresses: f64,
    pub(crate) rejected: f64,
    pub(crate) overflowing: f64,
}

/// The default number of counters of a server.
const COUNTERS_MAX: usize = 100_000;

/// A private key of a production tenant creates a token: four counters.
fn sample_request(address: u32) -> RateLimitRequest {
    let caller = RateLimitCaller {
        api_key: CounterDigest([7; 16]),
        kind: ApplicationKind::Private,
        is_legacy: false,
        tenant: CounterDigest([8; 16]),
        tenant_kind: TenantKind::Production,
        share: RateLimitShare::Default,
    };
    let address = ClientNetwork::from_address(std::net::Ipv4Addr::from(address).into());
    RateLimitRequest {
        address,
        target: RateLimitTarget::Operation(Operation::CreateToken),
        caller: Some(caller),
    }
}

/// Counts requests from each address in turn, with a clock that advances by `step_us` per request.
fn count_requests(
    counters: &RateLimitCounters,
    step_us: u64,
    addresses: u32,
) -> impl Fn() -> bool + '_ {
    let rates = EffectiveRates::default();
    let request_count = Cell::new(0_u32);
    move || {
        let request_number = request_count.replace(request_count.get().wrapping_add(1));
        let now = Timestamp {
            unix_ms: i64::from(request_number).saturating_mul(step_us.cast_signed()) / 1000,
        };
        let request =
            sample_request(request_number.checked_rem(addresses).unwrap_or(request_number));
        counters.count(now, &counter_checks(&rates, black_box(&request))).is_ok()
    }
}

pub(crate) fn measure_limits() -> anyhow::Result<LimiterCost> {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
    let pepper = Pepper::create(&root)?.0;
    let key = "key_prod_us_pvt_ABCDEFGHJKMNPQRSTVWXYZ0123456789ABCDEFG";
    let new_counters = || RateLimitCounters::new(COUNTERS_MAX);
    let (one, many, exhausted, overflowing) =
        (new_counters(), new_counters(), new_counters(), new_counters());
    let check = address_check(&EffectiveRates::default(), sample_request(1).address);
    let now = Timestamp { unix_ms: 0 };
    // As fast as the address limit allows, or like a server with ten thousand clients.
    let count_one = count_requests(&one, 51_000, 1);
    let count_many = count_requests(&many, 5_001, 10_000);
    // The clock does not move: every request after the limit is rejected.
    let count_rejected = count_requests(&exhausted, 0, 1);
    // Nearly every request comes from a new address, and the counters do not suffice.
    let count_overflowing = count_requests(&overflowing, 51, 0);
    Ok(LimiterCost {
        digest: nanos_per_call(|| pepper.api_key_digest(black_box(key)).first() != Some(&0)),
        check_address: nanos_per_call(|| {
            check.as_ref().is_some_and(|it| one.probe(now, black_box(it)).is_ok())
        }),
        one_address: nanos_per_call(count_one),
        many_addresses: nanos_per_call(count_many),
        rejected: nanos_per_call(count_rejected),
        overflowing: nanos_per_call(count_overflowing),
    })
}

pub(crate) fn report_limits(cost: &LimiterCost) -> String {
    let mut text =
        "\nRate limits\n\n| what                                    |   measured | of a digest |\n\
        |-----------------------------------------|-----------:|------------:|\n"
            .to_owned();
    let rows = [
        ("digest of an API key", cost.digest),
        ("check an address", cost.check_address),
        ("count on four, one address", cost.one_address),
        ("count on four, 10,000 addresses", cost.many_addresses),
        ("rejected", cost.rejected),
        ("count on four, unbounded addresses", cost.overflowing),
    ];
    for (name, nanos) in rows {
        let ratio = nanos / cost.digest;
        text.push_str(&format!("| {name:<39} | {nanos:>7.0} ns | {ratio:>9.1} x |\n"));
    }
    let total = cost.check_address + cost.one_address;
    let verdict = if total < 1000.0 { "met" } else { "MISSED" };
    text.push_str(&format!("\nask and count, one address, under 1 us: {total:.0} ns, {verdict}\n"));
    text
}
