//! Which operations each permission opens, asked of the server and kept in a file for people.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, Permission},
};
use scrip_testing::policy::permissions_of;

use crate::{access::calls::TenantHarness, harness::server::Server};

type Operations = BTreeSet<&'static str>;

/// What answers otherwise than with 401 or 403. Deletions come last: they leave nothing to ask for.
fn opened(world: &TenantHarness<'_>, key: &str) -> Operations {
    let mut routes = ROUTES.to_vec();
    routes
        .sort_by_key(|it| (it.method_name() == "DELETE", it.operation == Operation::DeleteTenant));
    let opens = |it: &Route| ![401, 403].contains(&world.call(it, Some(key)).status);
    routes.into_iter().filter(opens).map(|it| it.operation.as_str()).collect()
}

/// A key of each kind with each permission that it can hold, alone.
fn ask(server: &Server, kind: &'static str, permission: Permission) -> Operations {
    let world = TenantHarness { lent: permission.as_str(), ..TenantHarness::new(server) };
    let key = match ApplicationKind::parse(kind) {
        Some(kind) => server.permissions(&world.keys.tenant, kind, &[permission]),
        None => world.session(&[permission]),
    };
    opened(&world.with_session_of(&key), &key)
}

fn common(lines: &[(&'static str, Permission, Operations)], kind: Option<&str>) -> Operations {
    let mut of_kind = lines.iter().filter(|it| kind.is_none_or(|kind| it.0 == kind));
    let first = of_kind.next().map(|it| it.2.clone()).unwrap_or_default();
    of_kind.fold(first, |common, it| &common & &it.2)
}

fn table() -> String {
    let server = Server::start();
    let mut lines = Vec::new();
    for kind in ["public", "private", "management", "session"] {
        // A session can be lent what a private application can hold.
        let holder = ApplicationKind::parse(kind).unwrap_or(ApplicationKind::Private);
        for permission in permissions_of(holder) {
            lines.push((kind, permission, ask(&server, kind, permission)));
        }
    }
    let mut text = String::from(
        "Which operations a key reaches. Written by tests/it/access/authority.rs:\n\
         SCRIP_TEST_GOLDEN=write cargo test --test it authority\n\n",
    );
    let mut line = |kind: &str, permission: &str, operations: &Operations| {
        let names: Vec<_> = operations.iter().copied().collect();
        let names = if names.is_empty() { "-".to_owned() } else { names.join(" ") };
        writeln!(text, "{kind:11} {permission:34} {names}").unwrap();
    };
    let any = common(&lines, None);
    line("any", "any or none", &any);
    let world = TenantHarness::new(&server);
    line("session", "none: not authorized", &(&opened(&world, &world.session(&[])) - &any));
    let mut of_kind = Operations::new();
    let mut before = "";
    for (kind, permission, operations) in &lines {
        if *kind != before {
            before = kind;
            of_kind = &common(&lines, Some(kind)) - &any;
            line(kind, "any", &of_kind);
        }
        line(kind, permission.as_str(), &(&(operations - &any) - &of_kind));
    }
    text
}

#[test]
fn each_permission_opens_its_operations_and_no_other() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/authority.txt");
    let table = table();
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &table).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap();
    for (kept, found) in kept.lines().zip(table.lines()) {
        assert_eq!(kept, found, "if this is meant, run with SCRIP_TEST_GOLDEN=write");
    }
    assert_eq!(kept, table, "if this is meant, run with SCRIP_TEST_GOLDEN=write");
}
