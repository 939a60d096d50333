//! Two processes on one file: a server, and an operator's command beside it.

use std::{
    env,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::{
    Vault,
    operations::{
        applications::create_application::{CreateKey, NewApplication, create_application},
        tenants::{delete_tenant::delete_tenant, update_tenant::set_tenant_quotas},
    },
    policy::{ApplicationKind, Directory, Mandate, Name, Settings, Tenant},
    store::{DirectoryStore, Maintenance},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    policy::{TOKENS, plain},
    requests::{VISA, card, create, get},
    vault::root_key,
    vault_harness::{Engine, VaultHarness, vault_on},
};
use tokio::{task, time::timeout};

/// Tells this very program that it is the other process, and where the file is.
const OTHER: &str = "SCRIP_TEST_BESIDE";
const OTHERS_CHANGES: usize = 300;
const TOKENS_LEAST: usize = 3200;
const WRITERS: usize = 32;

async fn opened(
    open: fn(&Path) -> Result<SqliteStore, scrip_core::store::StoreError>,
    file: &Path,
) {
    let file = file.to_owned();
    drop(task::spawn_blocking(move || open(&file)).await.unwrap().unwrap());
}

async fn application(vault: &Vault, tenant: &Arc<Tenant>, directory: &Directory, name: &str) {
    let new = NewApplication {
        name: Name::parse(name).unwrap(),
        kind: ApplicationKind::Private,
        access: plain(TOKENS),
        create_key: CreateKey::Yes,
    };
    let mandate = Mandate::of_operator(Arc::clone(tenant));
    create_application(vault, mandate, directory.pepper(), new, None).await.unwrap();
}

#[tokio::test]
async fn a_second_server_is_refused_soon() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let file = world.file();
    let second = task::spawn_blocking(move || SqliteStore::open(&file));
    let second = timeout(Duration::from_secs(10), second).await.unwrap().unwrap();
    assert!(format!("{:?}", second.unwrap_err()).contains("another process"));
    // The first is none the worse for it.
    world.tenant(Settings::default()).await;
    // And when it has gone, another can have it.
    let file = world.file();
    let world = world.with_store(|| Arc::new(SqliteStore::open(&file).unwrap()));
    assert_eq!(world.directory().await.tenants().len(), 1);
}

/// A command that begins first is done with the lock before a server wants it.
#[tokio::test]
async fn a_command_without_a_server_makes_the_file_and_frees_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scrip.db");
    let beside = SqliteStore::open_beside(&file).unwrap();
    assert_eq!(beside.directory_version().await.unwrap(), 0);
    // It is still open, and so is the next one.
    let another = SqliteStore::open_beside(&file).unwrap();
    let server = SqliteStore::open(&file).unwrap();
    for store in [&beside, &another, &server] {
        store.check_ready().await.unwrap();
    }
    drop(server);
    opened(SqliteStore::open, &file).await;
}

#[tokio::test]
async fn another_version_is_refused() {
    let refused = |file: &Path, part: &str| {
        let problem = format!("{:?}", SqliteStore::open_beside(file).unwrap_err());
        assert!(problem.contains(part), "{problem}");
    };
    let world = VaultHarness::open(Engine::Sqlite).await;
    let outside = Connection::open(world.file()).unwrap();
    let version: i64 = outside.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    for other in [version - 1, version + 1, 0] {
        outside.pragma_update(None, "user_version", other).unwrap();
        refused(&world.file(), "another version");
    }
    outside.pragma_update(None, "user_version", version).unwrap();
    opened(SqliteStore::open_beside, &world.file()).await;

    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("scrip.db");
    opened(SqliteStore::open_beside, &alone).await;
    let outside = Connection::open(&alone).unwrap();
    for (other, part) in [(version + 1, "newer version"), (version - 1, "early version")] {
        outside.pragma_update(None, "user_version", other).unwrap();
        refused(&alone, part);
        assert!(SqliteStore::open(&alone).is_err());
    }
}

/// What one changes the other sees, by the version and then by the rows.
#[tokio::test]
async fn a_server_sees_what_a_command_did() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    let before = world.directory().await;

    let (beside, _) = vault_on(Arc::new(SqliteStore::open_beside(&world.file()).unwrap()));
    let theirs = Directory::load(&*beside.store, &root_key(), None).await.unwrap();
    assert_eq!(theirs.version(), before.version());
    let known = theirs.tenant(tenant.id).unwrap();
    application(&beside, known, &theirs, "beside").await;
    assert!(world.vault.store.directory_version().await.unwrap() > before.version());
    let after = world.reload(Some(&before)).await.unwrap();
    assert_eq!(after.alterations(), []);
    assert_eq!(after.tenant(tenant.id).unwrap().applications.len(), 2);
    get(&world.vault, &caller, &id).await;

    delete_tenant(&beside, Mandate::of_operator(Arc::clone(known))).await.unwrap();
    let after = world.reload(Some(&after)).await.unwrap();
    assert!(after.tenant(tenant.id).is_none() && after.alterations().is_empty());
}

/// Not a test by itself: what the other process does.
#[tokio::test]
async fn the_other_process() {
    let Some(file) = env::var_os(OTHER) else { return };
    let (vault, _) = vault_on(Arc::new(SqliteStore::open_beside(Path::new(&file)).unwrap()));
    let directory = Directory::load(&*vault.store, &root_key(), None).await.unwrap();
    let tenants = directory.tenants();
    for at in 0..OTHERS_CHANGES {
        application(&vault, tenants[at % tenants.len()], &directory, &format!("beside {at}")).await;
    }
}

fn other_process(file: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "sqlite::second_process::the_other_process"]).env(OTHER, file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Thousands of tokens by one and hundreds of changes of policy by both: nobody is told that the
/// file is busy, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_at_once() {
    let world = Arc::new(VaultHarness::open(Engine::Sqlite).await);
    let tenant = world.tenant(Settings::default()).await;
    world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    let mut child = other_process(&world.file());
    let running = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mut writers = task::JoinSet::new();
    for _ in 0..WRITERS {
        let (world, caller, running) = (Arc::clone(&world), caller.clone(), Arc::clone(&running));
        let tenant = Arc::clone(&tenant);
        writers.spawn(async move {
            let mut ids = Vec::new();
            while running.load(std::sync::atomic::Ordering::Relaxed)
                || ids.len() < TOKENS_LEAST / WRITERS
            {
                ids.push(create(&world.vault, &caller, card(VISA)).await.unwrap().token.id);
                if ids.len() % 50 == 0 {
                    let mandate = Mandate::of_operator(Arc::clone(&tenant));
                    set_tenant_quotas(&world.vault, mandate, Box::new(|it| it)).await.unwrap();
                }
            }
            ids
        });
    }
    let status = task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    running.store(false, std::sync::atomic::Ordering::Relaxed);
    let ids: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    assert!(status.success(), "the other process failed");
    assert!(ids.len() >= TOKENS_LEAST);
    for id in &ids {
        get(&world.vault, &caller, id).await;
    }
    let directory = world.directory().await;
    assert_eq!(directory.alterations(), []);
    let all: usize = directory.tenants().iter().map(|it| it.applications.len()).sum();
    assert_eq!(all, OTHERS_CHANGES + 1);
}
