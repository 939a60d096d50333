//! The table as the interface has it, and who meets which row.

use super::*;

/// Scope, counter, rate and action, as they are published.
#[rustfmt::skip]
const PUBLISHED: &[(&str, &str, CounterGrouping, u32, u64, u64)] = &[
    ("test_tenant", "Test tenant, any method and resource", CounterGrouping::ApiKeyAndAddress, 50, 10, 0),
    ("search_tokens", "POST /tokens/search", CounterGrouping::ApiKeyAndAddress, 50, 10, 0),
    ("list_tokens", "GET /tokens", CounterGrouping::ApiKeyAndAddress, 100, 10, 0),
    ("create_tokens", "POST /tokens or /tokenize", CounterGrouping::ApiKeyAndAddress, 200, 10, 0),
    ("update_token", "PATCH /tokens/{id}", CounterGrouping::ApiKeyAndAddress, 200, 10, 0),
    ("delete_token", "DELETE /tokens/{id}", CounterGrouping::ApiKeyAndAddress, 200, 10, 0),
    ("account_updater", "ANY /account-updater/*", CounterGrouping::ApiKeyAndAddress, 10, 10, 0),
    ("private_application", "Private application, any", CounterGrouping::ApiKeyOrAddress, 2000, 10, 0),
    ("public_application", "Public application, any", CounterGrouping::ApiKeyAndAddress, 50, 60, 10),
    ("management_application", "Management application, any", CounterGrouping::ApiKey, 200, 60, 60),
    ("keyless_proxy", "Unauthenticated or white-label proxy", CounterGrouping::ProxyKeyAndAddress, 50, 10, 0),
    ("proxy_hostname", "Proxy with custom hostname", CounterGrouping::HostnameAndAddress, 50, 10, 0),
    ("address", "Global, any", CounterGrouping::Address, 2000, 10, 30),
    ("legacy_key", "Legacy API keys, any", CounterGrouping::ApiKeyAndAddress, 100, 60, 0),
];

#[test]
fn rate_limit_table_matches_the_published_api() {
    assert_eq!(RATE_LIMITS.len(), PUBLISHED.len());
    assert_eq!(RATE_LIMITS.len(), RateLimitName::ALL.len());
    for (at, (limit, published)) in RATE_LIMITS.iter().zip(PUBLISHED).enumerate() {
        let (name, scope, counter, requests, window, block) = *published;
        assert_eq!(limit.name.as_str(), name, "{scope}");
        assert_eq!((limit.name.index(), RateLimitName::ALL[at]), (at, limit.name));
        assert_eq!(limit.grouping, counter, "{scope}");
        assert_eq!(limit.rate.requests.get(), requests, "{scope}");
        assert_eq!(limit.rate.window, Duration::from_secs(window), "{scope}");
        let blocked = limit.rate.block_duration().unwrap_or_default();
        assert_eq!(blocked, Duration::from_secs(block), "{scope}");
    }
}

const KEY: CounterDigest = CounterDigest([1; 16]);
const TENANT: CounterDigest = CounterDigest([2; 16]);
const PROXY: CounterDigest = CounterDigest([3; 16]);

fn client_network() -> ClientNetwork {
    ClientNetwork::from_address([192, 0, 2, 1].into())
}

fn caller(kind: ApplicationKind) -> RateLimitCaller {
    RateLimitCaller {
        api_key: KEY,
        kind,
        is_legacy: false,
        tenant: TENANT,
        tenant_kind: TenantKind::Production,
        share: RateLimitShare::Default,
    }
}

fn checks_for(target: RateLimitTarget, caller: Option<RateLimitCaller>) -> Vec<CounterCheck> {
    counter_checks(
        &EffectiveRates::default(),
        &RateLimitRequest { address: client_network(), target, caller },
    )
}

#[track_caller]
fn check(target: RateLimitTarget, caller: Option<RateLimitCaller>, expected: &str) {
    let rows: Vec<_> = checks_for(target, caller).iter().map(|it| it.limit.as_str()).collect();
    assert_eq!(rows.join(" "), expected, "{target:?} {caller:?}");
}

#[test]
fn each_request_is_counted_on_its_rate_limits() {
    use ApplicationKind::{Management, Private, Public};
    let asks = RateLimitTarget::Operation;
    let by = |kind| Some(caller(kind));
    let test = |kind| Some(RateLimitCaller { tenant_kind: TenantKind::Test, ..caller(kind) });
    let legacy = |kind| Some(RateLimitCaller { is_legacy: true, ..caller(kind) });
    // Twice: one counter for the key and one for the address.
    let private = "private_application private_application address";
    check(asks(Operation::GetToken), by(Private), private);
    check(asks(Operation::ListPermissions), by(Private), private);
    check(asks(Operation::Detokenize), by(Private), private);
    check(asks(Operation::GetTokenIntent), by(Private), private);
    for (operation, row) in [
        (Operation::SearchTokens, "search_tokens"),
        (Operation::SearchTokensV1, "search_tokens"),
        (Operation::ListTokens, "list_tokens"),
        (Operation::ListTokensV1, "list_tokens"),
        (Operation::CreateToken, "create_tokens"),
        (Operation::Tokenize, "create_tokens"),
        (Operation::UpdateToken, "update_token"),
        (Operation::DeleteToken, "delete_token"),
    ] {
        check(asks(operation), by(Private), &format!("{row} {private}"));
    }
    check(asks(Operation::CreateToken), by(Public), "create_tokens public_application address");
    check(asks(Operation::CreateTokenIntent), by(Public), "public_application address");
    check(asks(Operation::GetTenant), by(Management), "management_application address");
    let tested = format!("test_tenant {private}");
    check(asks(Operation::GetToken), test(Private), &tested);
    let tested = "test_tenant management_application address";
    check(asks(Operation::GetTenant), test(Management), tested);
    check(asks(Operation::GetToken), legacy(Private), &format!("{private} legacy_key"));
    check(RateLimitTarget::AccountUpdater, by(Private), &format!("account_updater {private}"));
    check(RateLimitTarget::KeylessProxy(PROXY), None, "keyless_proxy address");
    check(RateLimitTarget::ProxyHostname(PROXY), None, "proxy_hostname address");
    check(RateLimitTarget::Other, None, "address");
    check(asks(Operation::CreateToken), None, "address");
}

#[test]
fn counter_grouping_and_uses_one_pair_and_or_uses_two_counters() {
    let found = |target, kind: Option<ApplicationKind>, row: RateLimitName| -> Vec<_> {
        let checks = checks_for(target, kind.map(caller));
        checks.iter().filter(|it| it.limit == row).map(|it| it.key).collect()
    };
    let of = |operation, kind, row| found(RateLimitTarget::Operation(operation), Some(kind), row);
    let (pair, address) =
        (CounterKey::Pair(KEY, client_network()), CounterKey::Address(client_network()));
    let private = ApplicationKind::Private;
    assert_eq!(of(Operation::CreateToken, private, RateLimitName::CreateTokens), [pair]);
    let each = [CounterKey::Digest(KEY), address];
    assert_eq!(of(Operation::CreateToken, private, RateLimitName::PrivateApplication), each);
    assert_eq!(of(Operation::CreateToken, private, RateLimitName::Address), [address]);
    let public = ApplicationKind::Public;
    assert_eq!(of(Operation::CreateToken, public, RateLimitName::PublicApplication), [pair]);
    let management = ApplicationKind::Management;
    let key = [CounterKey::Digest(KEY)];
    assert_eq!(of(Operation::GetTenant, management, RateLimitName::ManagementApplication), key);
    let proxied = [CounterKey::Pair(PROXY, client_network())];
    assert_eq!(
        found(RateLimitTarget::KeylessProxy(PROXY), None, RateLimitName::KeylessProxy),
        proxied
    );
    assert_eq!(
        found(RateLimitTarget::ProxyHostname(PROXY), None, RateLimitName::ProxyHostname),
        proxied
    );
}

fn rates(share: RateLimitShare) -> Vec<(RateLimitName, u32)> {
    let caller = RateLimitCaller { share, is_legacy: true, ..caller(ApplicationKind::Private) };
    let checks = checks_for(RateLimitTarget::Operation(Operation::ListTokens), Some(caller));
    checks.iter().map(|it| (it.limit, it.rate.requests.get())).collect()
}

#[test]
fn tenant_share_does_not_change_the_address_limit() {
    let percent = |it| RateLimitShare::Percent(NonZeroU32::new(it).unwrap());
    let expected = |list, private, legacy| {
        let private = (RateLimitName::PrivateApplication, private);
        let address = (RateLimitName::Address, 2000);
        vec![
            (RateLimitName::ListTokens, list),
            private,
            private,
            address,
            (RateLimitName::LegacyKey, legacy),
        ]
    };
    assert_eq!(rates(RateLimitShare::Default), expected(100, 2000, 100));
    assert_eq!(rates(percent(50)), expected(50, 1000, 50));
    assert_eq!(rates(percent(10_000)), expected(10_000, 200_000, 10_000));
    assert_eq!(rates(percent(1)), expected(1, 20, 1));
    assert_eq!(rates(RateLimitShare::Off), [(RateLimitName::Address, 2000)]);
    let most = RATE_LIMITS[0].rate.scaled(NonZeroU32::MAX).scaled(NonZeroU32::MAX);
    assert_eq!(most.requests, NonZeroU32::MAX);
    assert_eq!(RATE_LIMITS[6].rate.scaled(NonZeroU32::MIN).requests.get(), 1, "never none");
}

/// A tenant with another share does not meet the others' requests at the counter of an address.
#[test]
fn tenant_with_own_share_has_its_own_address_counter() {
    let subjects = |share| -> Vec<_> {
        let caller = RateLimitCaller { share, ..caller(ApplicationKind::Private) };
        let checks = checks_for(RateLimitTarget::Other, Some(caller));
        checks.iter().map(|it| it.key).collect()
    };
    let (key, address) = (CounterKey::Digest(KEY), CounterKey::Address(client_network()));
    assert_eq!(subjects(RateLimitShare::Default), [key, address, address]);
    let half = RateLimitShare::Percent(NonZeroU32::new(50).unwrap());
    assert_eq!(subjects(half), [key, CounterKey::Pair(TENANT, client_network()), address]);
}

#[test]
fn configured_rates_replace_the_default_table() {
    let rate = Rate { requests: NonZeroU32::MIN, ..RATE_LIMITS[0].rate };
    let figures = EffectiveRates::default()
        .with_rate(RateLimitName::ListTokens, Some(rate))
        .with_rate(RateLimitName::Address, None);
    assert_eq!(figures.rate(RateLimitName::ListTokens), Some(rate));
    assert_eq!(figures.rate(RateLimitName::LegacyKey), Some(RATE_LIMITS[13].rate));
    assert!(address_check(&figures, client_network()).is_none());
    let facts = RateLimitRequest {
        address: client_network(),
        target: RateLimitTarget::Other,
        caller: None,
    };
    assert_eq!(counter_checks(&figures, &facts), []);
}

#[test]
fn ipv6_addresses_are_counted_by_64_bit_prefix() {
    let network = |text: &str| ClientNetwork::from_address(text.parse().unwrap());
    let one = |a, b| assert_eq!(network(a), network(b), "{a} {b}");
    let two = |a, b| assert_ne!(network(a), network(b), "{a} {b}");
    one("192.0.2.1", "::ffff:192.0.2.1");
    two("192.0.2.1", "192.0.2.2");
    two("::ffff:192.0.2.1", "::ffff:192.0.2.2");
    one("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff");
    two("2001:db8::1", "2001:db8:0:1::1");
    // Not mapped: an address of the first network there is.
    two("::1", "0.0.0.1");
    one("::1", "::2");
}
