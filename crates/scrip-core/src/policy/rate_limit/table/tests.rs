//! The published rate limits, and the limits that apply to each kind of request.

use std::{num::NonZeroU32, time::Duration};

use super::*;
use crate::policy::rate_limit::RATE_LIMITS;

/// Scope, counter, rate and action, as published.
#[rustfmt::skip]
const PUBLISHED: &[(&str, &str, CounterGrouping, u32, u64, u64)] = &[
    ("test_tenant", "Test tenant, any method and resource", ApiKeyAndAddress, 50, 10, 0),
    ("search_tokens", "POST /tokens/search", ApiKeyAndAddress, 50, 10, 0),
    ("list_tokens", "GET /tokens", ApiKeyAndAddress, 100, 10, 0),
    ("create_tokens", "POST /tokens or /tokenize", ApiKeyAndAddress, 200, 10, 0),
    ("update_token", "PATCH /tokens/{id}", ApiKeyAndAddress, 200, 10, 0),
    ("delete_token", "DELETE /tokens/{id}", ApiKeyAndAddress, 200, 10, 0),
    ("account_updater", "ANY /account-updater/*", ApiKeyAndAddress, 10, 10, 0),
    ("private_application", "Private application, any", ApiKeyOrAddress, 2000, 10, 0),
    ("public_application", "Public application, any", ApiKeyAndAddress, 50, 60, 10),
    ("management_application", "Management application, any", ApiKey, 200, 60, 60),
    ("keyless_proxy", "Unauthenticated or white-label proxy", ProxyKeyAndAddress, 50, 10, 0),
    ("proxy_hostname", "Proxy with custom hostname", HostnameAndAddress, 50, 10, 0),
    ("address", "Global, any", Address, 2000, 10, 30),
    ("legacy_key", "Legacy API keys, any", ApiKeyAndAddress, 100, 60, 0),
];

#[test]
fn rate_limit_table_matches_the_published_api() {
    assert_eq!(RATE_LIMITS.len(), PUBLISHED.len());
    assert_eq!(RATE_LIMITS.len(), RateLimitName::ALL.len());
    for (index, (limit, published)) in RATE_LIMITS.iter().zip(PUBLISHED).enumerate() {
        let (name, scope, grouping, requests, window, block) = *published;
        assert_eq!(limit.name.as_str(), name, "{scope}");
        assert_eq!((limit.name.index(), RateLimitName::ALL[index]), (index, limit.name));
        assert_eq!(limit.grouping, grouping, "{scope}");
        assert_eq!(limit.rate.requests.get(), requests, "{scope}");
        assert_eq!(limit.rate.window, Duration::from_secs(window), "{scope}");
        let block_duration = limit.rate.block_duration().unwrap_or_default();
        assert_eq!(block_duration, Duration::from_secs(block), "{scope}");
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
    let names: Vec<_> = checks_for(target, caller).iter().map(|it| it.limit.as_str()).collect();
    assert_eq!(names.join(" "), expected, "limits of {target:?} by {caller:?}");
}

#[test]
fn each_request_is_counted_on_its_rate_limits() {
    use ApplicationKind::{Management, Private, Public};
    let operation_target = RateLimitTarget::Operation;
    let caller_of = |kind| Some(caller(kind));
    let test_caller_of =
        |kind| Some(RateLimitCaller { tenant_kind: TenantKind::Test, ..caller(kind) });
    let legacy_caller_of = |kind| Some(RateLimitCaller { is_legacy: true, ..caller(kind) });
    // Twice: one counter for the key and one for the address.
    let private_limits = "private_application private_application address";
    check(operation_target(Operation::GetToken), caller_of(Private), private_limits);
    check(operation_target(Operation::ListPermissions), caller_of(Private), private_limits);
    check(operation_target(Operation::Detokenize), caller_of(Private), private_limits);
    check(operation_target(Operation::GetTokenIntent), caller_of(Private), private_limits);
    for (operation, limit) in [
        (Operation::SearchTokens, "search_tokens"),
        (Operation::SearchTokensV1, "search_tokens"),
        (Operation::ListTokens, "list_tokens"),
        (Operation::ListTokensV1, "list_tokens"),
        (Operation::CreateToken, "create_tokens"),
        (Operation::Tokenize, "create_tokens"),
        (Operation::UpdateToken, "update_token"),
        (Operation::DeleteToken, "delete_token"),
    ] {
        check(
            operation_target(operation),
            caller_of(Private),
            &format!("{limit} {private_limits}"),
        );
    }
    check(
        operation_target(Operation::CreateToken),
        caller_of(Public),
        "create_tokens public_application address",
    );
    check(
        operation_target(Operation::CreateTokenIntent),
        caller_of(Public),
        "public_application address",
    );
    check(
        operation_target(Operation::GetTenant),
        caller_of(Management),
        "management_application address",
    );
    let test_limits = format!("test_tenant {private_limits}");
    check(operation_target(Operation::GetToken), test_caller_of(Private), &test_limits);
    let test_limits = "test_tenant management_application address";
    check(operation_target(Operation::GetTenant), test_caller_of(Management), test_limits);
    check(
        operation_target(Operation::GetToken),
        legacy_caller_of(Private),
        &format!("{private_limits} legacy_key"),
    );
    check(
        RateLimitTarget::AccountUpdater,
        caller_of(Private),
        &format!("account_updater {private_limits}"),
    );
    check(RateLimitTarget::KeylessProxy(PROXY), None, "keyless_proxy address");
    check(RateLimitTarget::ProxyHostname(PROXY), None, "proxy_hostname address");
    check(RateLimitTarget::Other, None, "address");
    check(operation_target(Operation::CreateToken), None, "address");
}

#[test]
fn counter_grouping_and_uses_one_counter_per_pair_or_uses_two_counters() {
    let keys_for = |target, kind: Option<ApplicationKind>, limit: RateLimitName| -> Vec<_> {
        let checks = checks_for(target, kind.map(caller));
        checks.iter().filter(|it| it.limit == limit).map(|it| it.key).collect()
    };
    let operation_keys =
        |operation, kind, limit| keys_for(RateLimitTarget::Operation(operation), Some(kind), limit);
    let (key_address_pair, address) =
        (CounterKey::Pair(KEY, client_network()), CounterKey::Address(client_network()));
    let private = ApplicationKind::Private;
    assert_eq!(
        operation_keys(Operation::CreateToken, private, RateLimitName::CreateTokens),
        [key_address_pair]
    );
    let key_and_address = [CounterKey::Digest(KEY), address];
    assert_eq!(
        operation_keys(Operation::CreateToken, private, RateLimitName::PrivateApplication),
        key_and_address
    );
    assert_eq!(operation_keys(Operation::CreateToken, private, RateLimitName::Address), [address]);
    let public = ApplicationKind::Public;
    assert_eq!(
        operation_keys(Operation::CreateToken, public, RateLimitName::PublicApplication),
        [key_address_pair]
    );
    let management = ApplicationKind::Management;
    let key = [CounterKey::Digest(KEY)];
    assert_eq!(
        operation_keys(Operation::GetTenant, management, RateLimitName::ManagementApplication),
        key
    );
    let proxy_keys = [CounterKey::Pair(PROXY, client_network())];
    assert_eq!(
        keys_for(RateLimitTarget::KeylessProxy(PROXY), None, RateLimitName::KeylessProxy),
        proxy_keys
    );
    assert_eq!(
        keys_for(RateLimitTarget::ProxyHostname(PROXY), None, RateLimitName::ProxyHostname),
        proxy_keys
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
    let expected_rates = |list, private, legacy| {
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
    assert_eq!(rates(RateLimitShare::Default), expected_rates(100, 2000, 100));
    assert_eq!(rates(percent(50)), expected_rates(50, 1000, 50));
    assert_eq!(rates(percent(10_000)), expected_rates(10_000, 200_000, 10_000));
    assert_eq!(rates(percent(1)), expected_rates(1, 20, 1));
    assert_eq!(rates(RateLimitShare::Off), [(RateLimitName::Address, 2000)]);
    let scaled = RATE_LIMITS[0].rate.scaled(NonZeroU32::MAX).scaled(NonZeroU32::MAX);
    assert_eq!(scaled.requests, NonZeroU32::MAX);
    assert_eq!(
        RATE_LIMITS[6].rate.scaled(NonZeroU32::MIN).requests.get(),
        1,
        "at least one request"
    );
}

/// Requests of other tenants at the same address do not count for a tenant with a different share.
#[test]
fn tenant_with_own_share_has_its_own_address_counter() {
    let keys_for_share = |share| -> Vec<_> {
        let caller = RateLimitCaller { share, ..caller(ApplicationKind::Private) };
        let checks = checks_for(RateLimitTarget::Other, Some(caller));
        checks.iter().map(|it| it.key).collect()
    };
    let (key, address) = (CounterKey::Digest(KEY), CounterKey::Address(client_network()));
    assert_eq!(keys_for_share(RateLimitShare::Default), [key, address, address]);
    let half = RateLimitShare::Percent(NonZeroU32::new(50).unwrap());
    assert_eq!(keys_for_share(half), [key, CounterKey::Pair(TENANT, client_network()), address]);
}

#[test]
fn configured_rates_replace_the_default_table() {
    let rate = Rate { requests: NonZeroU32::MIN, ..RATE_LIMITS[0].rate };
    let effective_rates = EffectiveRates::default()
        .with_rate(RateLimitName::ListTokens, Some(rate))
        .with_rate(RateLimitName::Address, None);
    assert_eq!(effective_rates.rate(RateLimitName::ListTokens), Some(rate));
    assert_eq!(effective_rates.rate(RateLimitName::LegacyKey), Some(RATE_LIMITS[13].rate));
    assert!(address_check(&effective_rates, client_network()).is_none());
    let request = RateLimitRequest {
        address: client_network(),
        target: RateLimitTarget::Other,
        caller: None,
    };
    assert_eq!(counter_checks(&effective_rates, &request), []);
}

#[test]
fn ipv6_addresses_are_counted_by_64_bit_prefix() {
    let network = |text: &str| ClientNetwork::from_address(text.parse().unwrap());
    let assert_same = |a, b| assert_eq!(network(a), network(b), "networks of {a} and {b}");
    let assert_different = |a, b| assert_ne!(network(a), network(b), "networks of {a} and {b}");
    assert_same("192.0.2.1", "::ffff:192.0.2.1");
    assert_different("192.0.2.1", "192.0.2.2");
    assert_different("::ffff:192.0.2.1", "::ffff:192.0.2.2");
    assert_same("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff");
    assert_different("2001:db8::1", "2001:db8:0:1::1");
    // Not an IPv4-mapped address: `::1` belongs to the network `::/64`.
    assert_different("::1", "0.0.0.1");
    assert_same("::1", "::2");
}
