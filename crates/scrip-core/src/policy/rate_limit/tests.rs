//! The table as the interface has it, and who meets which row.

use super::*;

/// Scope, counter, rate and action, as they are published.
#[rustfmt::skip]
const PUBLISHED: &[(&str, &str, Counter, u32, u64, u64)] = &[
    ("test_tenant", "Test tenant, any method and resource", Counter::ApiKeyAndAddress, 50, 10, 0),
    ("search_tokens", "POST /tokens/search", Counter::ApiKeyAndAddress, 50, 10, 0),
    ("list_tokens", "GET /tokens", Counter::ApiKeyAndAddress, 100, 10, 0),
    ("create_tokens", "POST /tokens or /tokenize", Counter::ApiKeyAndAddress, 200, 10, 0),
    ("update_token", "PATCH /tokens/{id}", Counter::ApiKeyAndAddress, 200, 10, 0),
    ("delete_token", "DELETE /tokens/{id}", Counter::ApiKeyAndAddress, 200, 10, 0),
    ("account_updater", "ANY /account-updater/*", Counter::ApiKeyAndAddress, 10, 10, 0),
    ("private_application", "Private application, any", Counter::ApiKeyOrAddress, 2000, 10, 0),
    ("public_application", "Public application, any", Counter::ApiKeyAndAddress, 50, 60, 10),
    ("management_application", "Management application, any", Counter::ApiKey, 200, 60, 60),
    ("keyless_proxy", "Unauthenticated or white-label proxy", Counter::ProxyKeyAndAddress, 50, 10, 0),
    ("proxy_hostname", "Proxy with custom hostname", Counter::HostnameAndAddress, 50, 10, 0),
    ("address", "Global, any", Counter::Address, 2000, 10, 30),
    ("legacy_key", "Legacy API keys, any", Counter::ApiKeyAndAddress, 100, 60, 0),
];

#[test]
fn the_table_is_the_interfaces() {
    assert_eq!(TABLE.len(), PUBLISHED.len());
    assert_eq!(TABLE.len(), Row::ALL.len());
    for (at, (limit, published)) in TABLE.iter().zip(PUBLISHED).enumerate() {
        let (name, scope, counter, requests, window, block) = *published;
        assert_eq!(limit.row.as_str(), name, "{scope}");
        assert_eq!((limit.row.index(), Row::ALL[at]), (at, limit.row));
        assert_eq!(limit.counter, counter, "{scope}");
        assert_eq!(limit.rate.requests.get(), requests, "{scope}");
        assert_eq!(limit.rate.window, Duration::from_secs(window), "{scope}");
        let blocked = limit.rate.block().unwrap_or_default();
        assert_eq!(blocked, Duration::from_secs(block), "{scope}");
    }
}

const KEY: Mark = Mark([1; 16]);
const TENANT: Mark = Mark([2; 16]);
const PROXY: Mark = Mark([3; 16]);

fn here() -> Network {
    Network::of([192, 0, 2, 1].into())
}

fn caller(kind: ApplicationKind) -> CallerFacts {
    CallerFacts {
        api_key: KEY,
        kind,
        is_legacy: false,
        tenant: TENANT,
        tenant_kind: TenantKind::Production,
        share: RateLimit::Default,
    }
}

fn met(target: Target, caller: Option<CallerFacts>) -> Vec<Demand> {
    demands(&Figures::default(), &Facts { address: here(), target, caller })
}

#[track_caller]
fn check(target: Target, caller: Option<CallerFacts>, expected: &str) {
    let rows: Vec<_> = met(target, caller).iter().map(|it| it.row.as_str()).collect();
    assert_eq!(rows.join(" "), expected, "{target:?} {caller:?}");
}

#[test]
fn every_request_meets_its_rows() {
    use ApplicationKind::{Management, Private, Public};
    let asks = Target::Operation;
    let by = |kind| Some(caller(kind));
    let test = |kind| Some(CallerFacts { tenant_kind: TenantKind::Test, ..caller(kind) });
    let legacy = |kind| Some(CallerFacts { is_legacy: true, ..caller(kind) });
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
    check(Target::AccountUpdater, by(Private), &format!("account_updater {private}"));
    check(Target::KeylessProxy(PROXY), None, "keyless_proxy address");
    check(Target::ProxyHostname(PROXY), None, "proxy_hostname address");
    check(Target::Elsewhere, None, "address");
    check(asks(Operation::CreateToken), None, "address");
}

#[test]
fn and_is_a_pair_and_or_is_each() {
    let found = |target, kind: Option<ApplicationKind>, row: Row| -> Vec<_> {
        let demands = met(target, kind.map(caller));
        demands.iter().filter(|it| it.row == row).map(|it| it.subject).collect()
    };
    let of = |operation, kind, row| found(Target::Operation(operation), Some(kind), row);
    let (pair, address) = (Subject::Pair(KEY, here()), Subject::Address(here()));
    let private = ApplicationKind::Private;
    assert_eq!(of(Operation::CreateToken, private, Row::CreateTokens), [pair]);
    let each = [Subject::Marked(KEY), address];
    assert_eq!(of(Operation::CreateToken, private, Row::PrivateApplication), each);
    assert_eq!(of(Operation::CreateToken, private, Row::Address), [address]);
    let public = ApplicationKind::Public;
    assert_eq!(of(Operation::CreateToken, public, Row::PublicApplication), [pair]);
    let management = ApplicationKind::Management;
    let key = [Subject::Marked(KEY)];
    assert_eq!(of(Operation::GetTenant, management, Row::ManagementApplication), key);
    let proxied = [Subject::Pair(PROXY, here())];
    assert_eq!(found(Target::KeylessProxy(PROXY), None, Row::KeylessProxy), proxied);
    assert_eq!(found(Target::ProxyHostname(PROXY), None, Row::ProxyHostname), proxied);
}

fn rates(share: RateLimit) -> Vec<(Row, u32)> {
    let caller = CallerFacts { share, is_legacy: true, ..caller(ApplicationKind::Private) };
    let demands = met(Target::Operation(Operation::ListTokens), Some(caller));
    demands.iter().map(|it| (it.row, it.rate.requests.get())).collect()
}

#[test]
fn a_tenants_share_leaves_the_row_of_addresses_alone() {
    let percent = |it| RateLimit::Percent(NonZeroU32::new(it).unwrap());
    let expected = |list, private, legacy| {
        let private = (Row::PrivateApplication, private);
        let address = (Row::Address, 2000);
        vec![(Row::ListTokens, list), private, private, address, (Row::LegacyKey, legacy)]
    };
    assert_eq!(rates(RateLimit::Default), expected(100, 2000, 100));
    assert_eq!(rates(percent(50)), expected(50, 1000, 50));
    assert_eq!(rates(percent(10_000)), expected(10_000, 200_000, 10_000));
    assert_eq!(rates(percent(1)), expected(1, 20, 1));
    assert_eq!(rates(RateLimit::Off), [(Row::Address, 2000)]);
    let most = TABLE[0].rate.scaled(NonZeroU32::MAX).scaled(NonZeroU32::MAX);
    assert_eq!(most.requests, NonZeroU32::MAX);
    assert_eq!(TABLE[6].rate.scaled(NonZeroU32::MIN).requests.get(), 1, "never none");
}

/// A tenant with another share does not meet the others' requests at the counter of an address.
#[test]
fn another_share_is_another_counter_of_the_address() {
    let subjects = |share| -> Vec<_> {
        let caller = CallerFacts { share, ..caller(ApplicationKind::Private) };
        let demands = met(Target::Elsewhere, Some(caller));
        demands.iter().map(|it| it.subject).collect()
    };
    let (key, address) = (Subject::Marked(KEY), Subject::Address(here()));
    assert_eq!(subjects(RateLimit::Default), [key, address, address]);
    let half = RateLimit::Percent(NonZeroU32::new(50).unwrap());
    assert_eq!(subjects(half), [key, Subject::Pair(TENANT, here()), address]);
}

#[test]
fn figures_take_the_place_of_the_tables() {
    let rate = Rate { requests: NonZeroU32::MIN, ..TABLE[0].rate };
    let figures = Figures::default().with(Row::ListTokens, Some(rate)).with(Row::Address, None);
    assert_eq!(figures.rate(Row::ListTokens), Some(rate));
    assert_eq!(figures.rate(Row::LegacyKey), Some(TABLE[13].rate));
    assert!(address_demand(&figures, here()).is_none());
    let facts = Facts { address: here(), target: Target::Elsewhere, caller: None };
    assert_eq!(demands(&figures, &facts), []);
}

#[test]
fn addresses_count_by_what_one_client_has() {
    let network = |text: &str| Network::of(text.parse().unwrap());
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
