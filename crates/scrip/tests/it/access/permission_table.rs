//! The operations that each permission allows, measured on a server and stored in a golden file.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::types::{ApplicationKind, Operation, Permission};
use scrip_testing::policy::permissions_for_kind;

use crate::{access::operation_calls::TenantHarness, harness::server::TestServer};

type Operations = BTreeSet<&'static str>;

/// Returns the operations that respond with a status other than 401 and 403. Deletions are called
/// last, because other operations need the entities.
fn allowed_operations(harness: &TenantHarness<'_>, key: &str) -> Operations {
    let mut routes = ROUTES.to_vec();
    routes
        .sort_by_key(|it| (it.method_name() == "DELETE", it.operation == Operation::DeleteTenant));
    let is_allowed = |it: &Route| ![401, 403].contains(&harness.call_route(it, Some(key)).status);
    routes.into_iter().filter(is_allowed).map(|it| it.operation.as_str()).collect()
}

/// Returns the operations of a key of each kind with each single permission that the kind can have.
fn operations_with_permission(
    server: &TestServer,
    kind: &'static str,
    permission: Permission,
) -> Operations {
    let harness =
        TenantHarness { delegated_permission: permission.as_str(), ..TenantHarness::new(server) };
    let key = match ApplicationKind::parse(kind) {
        Some(kind) => server.key_with_permissions(&harness.keys.tenant, kind, &[permission]),
        None => harness.create_access_session(&[permission]),
    };
    allowed_operations(&harness.with_app_session_of(&key), &key)
}

fn common_operations(
    lines: &[(&'static str, Permission, Operations)],
    kind: Option<&str>,
) -> Operations {
    let mut of_kind = lines.iter().filter(|it| kind.is_none_or(|kind| it.0 == kind));
    let first = of_kind.next().map(|it| it.2.clone()).unwrap_or_default();
    of_kind.fold(first, |common, it| &common & &it.2)
}

fn permission_table() -> String {
    let server = TestServer::start();
    let mut lines = Vec::new();
    for kind in ["public", "private", "management", "session"] {
        // A session can get every permission that a private application can have.
        let application_kind = ApplicationKind::parse(kind).unwrap_or(ApplicationKind::Private);
        for permission in permissions_for_kind(application_kind) {
            lines.push((kind, permission, operations_with_permission(&server, kind, permission)));
        }
    }
    let mut text = String::from(
        "The operations that each permission allows. Written by tests/it/access/permission_table.rs:\n\
         SCRIP_TEST_GOLDEN=write cargo test --test it permission_table\n\n",
    );
    let mut line = |kind: &str, permission: &str, operations: &Operations| {
        let names: Vec<_> = operations.iter().copied().collect();
        let names = if names.is_empty() { "-".to_owned() } else { names.join(" ") };
        writeln!(text, "{kind:11} {permission:34} {names}").unwrap();
    };
    let any = common_operations(&lines, None);
    line("any", "any or none", &any);
    let harness = TenantHarness::new(&server);
    let without_rights = allowed_operations(&harness, &harness.create_access_session(&[]));
    line("session", "none: not authorized", &(&without_rights - &any));
    let mut of_kind = Operations::new();
    let mut before = "";
    for (kind, permission, operations) in &lines {
        if *kind != before {
            before = kind;
            of_kind = &common_operations(&lines, Some(kind)) - &any;
            line(kind, "any", &of_kind);
        }
        line(kind, permission.as_str(), &(&(operations - &any) - &of_kind));
    }
    text
}

#[test]
fn each_permission_allows_only_its_operations() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/permission_table.txt");
    let table = permission_table();
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &table).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap();
    for (stored, current) in stored.lines().zip(table.lines()) {
        assert_eq!(stored, current, "if the change is intended, run with SCRIP_TEST_GOLDEN=write");
    }
    assert_eq!(stored, table, "if the change is intended, run with SCRIP_TEST_GOLDEN=write");
}
