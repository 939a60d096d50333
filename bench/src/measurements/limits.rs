//! What rate limits cost a request, in this process: which counters apply, and counting on them.

use std::{cell::Cell, hint::black_box};

use scrip_core::{
    audit::Operation,
    policy::{
        ApplicationKind, TenantKind,
        rate_limit::{
            ClientNetwork, CounterDigest, EffectiveRates, RateLimitCaller, RateLimitRequest,
            RateLimitTarget, address_check, counter_checks, counters::RateLimitCounters,
        },
        tenant::quota::RateLimitShare,
    },
    time::Timestamp,
};
use scrip_seal::{Pepper, RootKey};

use crate::measurements::expressions::nanos_per_call;

/// Nanoseconds each.
#[derive(Debug)]
pub(crate) struct LimiterCost {
    /// What is done for every request anyway: the digest by which its key is looked up.
    pub(crate) digest: f64,
    pub(crate) check_address: f64,
    pub(crate) one_address: f64,
    pub(crate) many_addresses: f64,
    pub(crate) rejected: f64,
    pub(crate) overflowing: f64,
}

/// Counters of a server when nobody says otherwise.
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

/// A clock that moves by so much with each request, and a request from each address in turn.
fn count_requests(
    counters: &RateLimitCounters,
    step_us: u64,
    addresses: u32,
) -> impl Fn() -> bool + '_ {
    let result = EffectiveRates::default();
    let turn = Cell::new(0_u32);
    move || {
        let at = turn.replace(turn.get().wrapping_add(1));
        let now = Timestamp { unix_ms: i64::from(at).saturating_mul(step_us.cast_signed()) / 1000 };
        let facts = sample_request(at.checked_rem(addresses).unwrap_or(at));
        counters.count(now, &counter_checks(&result, black_box(&facts))).is_ok()
    }
}

pub(crate) fn measure_limits() -> anyhow::Result<LimiterCost> {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
    let pepper = Pepper::create(&root)?.0;
    let key = "key_prod_us_pvt_ABCDEFGHJKMNPQRSTVWXYZ0123456789ABCDEFG";
    let counters = || RateLimitCounters::new(COUNTERS_MAX);
    let (one, many, blocked, crowded) = (counters(), counters(), counters(), counters());
    let asked = address_check(&EffectiveRates::default(), sample_request(1).address);
    let now = Timestamp { unix_ms: 0 };
    // As fast as the row of addresses lets one in, or a server with ten thousand clients is asked.
    let counting_one = count_requests(&one, 51_000, 1);
    let counting_many = count_requests(&many, 5_001, 10_000);
    // The clock stands: the third request in a thousand is refused, and all after it.
    let counting_blocked = count_requests(&blocked, 0, 1);
    // Nearly every request is somebody new, and there is no room for all.
    let counting_crowded = count_requests(&crowded, 51, 0);
    Ok(LimiterCost {
        digest: nanos_per_call(|| pepper.api_key_digest(black_box(key)).first() != Some(&0)),
        check_address: nanos_per_call(|| {
            asked.as_ref().is_some_and(|it| one.probe(now, black_box(it)).is_ok())
        }),
        one_address: nanos_per_call(counting_one),
        many_addresses: nanos_per_call(counting_many),
        rejected: nanos_per_call(counting_blocked),
        overflowing: nanos_per_call(counting_crowded),
    })
}

pub(crate) fn report_limits(cost: &LimiterCost) -> String {
    let mut text =
        "\nRate limits\n\n| what                                    |   measured | of a digest |\n\
        |-----------------------------------------|-----------:|------------:|\n"
            .to_owned();
    let rows = [
        ("digest of an API key", cost.digest),
        ("ask about an address", cost.check_address),
        ("count on four, one address", cost.one_address),
        ("count on four, 10,000 addresses", cost.many_addresses),
        ("refused", cost.rejected),
        ("count on four, addresses without end", cost.overflowing),
    ];
    for (name, nanos) in rows {
        let ratio = nanos / cost.digest;
        text.push_str(&format!("| {name:<39} | {nanos:>7.0} ns | {ratio:>9.1} x |\n"));
    }
    let whole = cost.check_address + cost.one_address;
    let verdict = if whole < 1000.0 { "met" } else { "MISSED" };
    text.push_str(&format!("\nask and count, one address, under 1 us: {whole:.0} ns, {verdict}\n"));
    text
}
