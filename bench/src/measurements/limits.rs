//! What rate limits cost a request, in this process: which counters apply, and counting on them.

use std::{cell::Cell, hint::black_box};

use scrip_core::{
    audit::Operation,
    policy::{
        ApplicationKind, TenantKind,
        rate_limit::{
            CallerFacts, Facts, Figures, Mark, Network, Target, address_demand, counters::Counters,
            demands,
        },
        tenant::quota::RateLimit,
    },
    time::Timestamp,
};
use scrip_seal::{Pepper, RootKey};

use crate::measurements::expressions::each;

/// Nanoseconds each.
#[derive(Debug)]
pub(crate) struct Cost {
    /// What is done for every request anyway: the digest by which its key is looked up.
    pub(crate) digest: f64,
    pub(crate) ask: f64,
    pub(crate) one_address: f64,
    pub(crate) many_addresses: f64,
    pub(crate) blocked: f64,
    pub(crate) crowded: f64,
}

/// Counters of a server when nobody says otherwise.
const COUNTERS_MAX: usize = 100_000;

/// A private key of a production tenant creates a token: four counters.
fn facts(address: u32) -> Facts {
    let caller = CallerFacts {
        api_key: Mark([7; 16]),
        kind: ApplicationKind::Private,
        is_legacy: false,
        tenant: Mark([8; 16]),
        tenant_kind: TenantKind::Production,
        share: RateLimit::Default,
    };
    let address = Network::of(std::net::Ipv4Addr::from(address).into());
    Facts { address, target: Target::Operation(Operation::CreateToken), caller: Some(caller) }
}

/// A clock that moves by so much with each request, and a request from each address in turn.
fn counting(counters: &Counters, step_us: u64, addresses: u32) -> impl Fn() -> bool + '_ {
    let figures = Figures::default();
    let turn = Cell::new(0_u32);
    move || {
        let at = turn.replace(turn.get().wrapping_add(1));
        let now = Timestamp { unix_ms: i64::from(at).saturating_mul(step_us.cast_signed()) / 1000 };
        let facts = facts(at.checked_rem(addresses).unwrap_or(at));
        counters.count(now, &demands(&figures, black_box(&facts))).is_ok()
    }
}

pub(crate) fn measure() -> anyhow::Result<Cost> {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
    let pepper = Pepper::create(&root)?.0;
    let key = "key_prod_us_pvt_ABCDEFGHJKMNPQRSTVWXYZ0123456789ABCDEFG";
    let counters = || Counters::new(COUNTERS_MAX);
    let (one, many, blocked, crowded) = (counters(), counters(), counters(), counters());
    let asked = address_demand(&Figures::default(), facts(1).address);
    let now = Timestamp { unix_ms: 0 };
    // As fast as the row of addresses lets one in, or a server with ten thousand clients is asked.
    let counting_one = counting(&one, 51_000, 1);
    let counting_many = counting(&many, 5_001, 10_000);
    // The clock stands: the third request in a thousand is refused, and all after it.
    let counting_blocked = counting(&blocked, 0, 1);
    // Nearly every request is somebody new, and there is no room for all.
    let counting_crowded = counting(&crowded, 51, 0);
    Ok(Cost {
        digest: each(|| pepper.digest(black_box(key)).first() != Some(&0)),
        ask: each(|| asked.as_ref().is_some_and(|it| one.ask(now, black_box(it)).is_ok())),
        one_address: each(counting_one),
        many_addresses: each(counting_many),
        blocked: each(counting_blocked),
        crowded: each(counting_crowded),
    })
}

pub(crate) fn report(cost: &Cost) -> String {
    let mut text =
        "\nRate limits\n\n| what                                    |   measured | of a digest |\n\
        |-----------------------------------------|-----------:|------------:|\n"
            .to_owned();
    let rows = [
        ("digest of an API key", cost.digest),
        ("ask about an address", cost.ask),
        ("count on four, one address", cost.one_address),
        ("count on four, 10,000 addresses", cost.many_addresses),
        ("refused", cost.blocked),
        ("count on four, addresses without end", cost.crowded),
    ];
    for (name, nanos) in rows {
        let ratio = nanos / cost.digest;
        text.push_str(&format!("| {name:<39} | {nanos:>7.0} ns | {ratio:>9.1} x |\n"));
    }
    let whole = cost.ask + cost.one_address;
    let verdict = if whole < 1000.0 { "met" } else { "MISSED" };
    text.push_str(&format!("\nask and count, one address, under 1 us: {whole:.0} ns, {verdict}\n"));
    text
}
