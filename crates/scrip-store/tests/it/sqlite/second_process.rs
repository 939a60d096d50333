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
    policy::{ApplicationKind, Directory, DisplayName, PolicyPermit, Tenant, TenantSettings},
    store::{DirectoryStore, Maintenance},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    policy::{TOKENS, access_without_rules},
    requests::{VISA, card, create, get},
    vault::root_key,
    vault_harness::{Engine, VaultHarness, vault_with_stopped_clock},
};
use tokio::{task, time::timeout};

/// Tells this very program that it is the other process, and where the file is.
const OTHER_PROCESS_FILE: &str = "SCRIP_TEST_BESIDE";
const OTHER_PROCESS_CHANGES: usize = 300;
const TOKENS_MIN: usize = 3200;
const WRITERS: usize = 32;

async fn open_and_close(
    open: fn(&Path) -> Result<SqliteStore, scrip_core::store::StoreError>,
    file: &Path,
) {
    let file = file.to_owned();
    drop(task::spawn_blocking(move || open(&file)).await.unwrap().unwrap());
}

async fn create_private_application(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    directory: &Directory,
    name: &str,
) {
    let new = NewApplication {
        name: DisplayName::parse(name).unwrap(),
        kind: ApplicationKind::Private,
        access: access_without_rules(TOKENS),
        create_key: CreateKey::Yes,
    };
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    create_application(vault, permit, directory.pepper(), new, None).await.unwrap();
}

#[tokio::test]
async fn second_server_on_the_same_file_is_rejected() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let file = harness.file();
    let second = task::spawn_blocking(move || SqliteStore::open(&file));
    let second = timeout(Duration::from_secs(10), second).await.unwrap().unwrap();
    assert!(format!("{:?}", second.unwrap_err()).contains("another process"));
    // The first is none the worse for it.
    harness.tenant(TenantSettings::default()).await;
    // And when it has gone, another can have it.
    let file = harness.file();
    let harness = harness.with_store(|| Arc::new(SqliteStore::open(&file).unwrap()));
    assert_eq!(harness.directory().await.tenants().len(), 1);
}

/// A command that begins first is done with the lock before a server wants it.
#[tokio::test]
async fn command_without_a_server_creates_the_file_and_releases_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scrip.db");
    let other = SqliteStore::open_for_command(&file).unwrap();
    assert_eq!(other.directory_version().await.unwrap(), 0);
    // It is still open, and so is the next one.
    let another = SqliteStore::open_for_command(&file).unwrap();
    let server = SqliteStore::open(&file).unwrap();
    for store in [&other, &another, &server] {
        store.check_ready().await.unwrap();
    }
    drop(server);
    open_and_close(SqliteStore::open, &file).await;
}

#[tokio::test]
async fn command_with_another_schema_version_is_rejected() {
    let rejected = |file: &Path, part: &str| {
        let problem = format!("{:?}", SqliteStore::open_for_command(file).unwrap_err());
        assert!(problem.contains(part), "{problem}");
    };
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let attacker = Connection::open(harness.file()).unwrap();
    let version: i64 = attacker.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    for other in [version - 1, version + 1, 0] {
        attacker.pragma_update(None, "user_version", other).unwrap();
        rejected(&harness.file(), "another version");
    }
    attacker.pragma_update(None, "user_version", version).unwrap();
    open_and_close(SqliteStore::open_for_command, &harness.file()).await;

    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("scrip.db");
    open_and_close(SqliteStore::open_for_command, &alone).await;
    let attacker = Connection::open(&alone).unwrap();
    for (other, part) in [(version + 1, "newer version"), (version - 1, "early version")] {
        attacker.pragma_update(None, "user_version", other).unwrap();
        rejected(&alone, part);
        assert!(SqliteStore::open(&alone).is_err());
    }
}

/// What one changes the other sees, by the version and then by the rows.
#[tokio::test]
async fn server_sees_changes_made_by_a_command() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let before = harness.directory().await;

    let (other, _) =
        vault_with_stopped_clock(Arc::new(SqliteStore::open_for_command(&harness.file()).unwrap()));
    let theirs = Directory::load(&*other.store, &root_key(), None).await.unwrap();
    assert_eq!(theirs.version(), before.version());
    let known = theirs.tenant(tenant.id).unwrap();
    create_private_application(&other, known, &theirs, "beside").await;
    assert!(harness.vault.store.directory_version().await.unwrap() > before.version());
    let after = harness.reload(Some(&before)).await.unwrap();
    assert_eq!(after.alterations(), []);
    assert_eq!(after.tenant(tenant.id).unwrap().applications.len(), 2);
    get(&harness.vault, &caller, &id).await;

    delete_tenant(&other, PolicyPermit::for_operator(Arc::clone(known))).await.unwrap();
    let after = harness.reload(Some(&after)).await.unwrap();
    assert!(after.tenant(tenant.id).is_none() && after.alterations().is_empty());
}

/// Not a test by itself: what the other process does.
#[tokio::test]
async fn run_as_other_process() {
    let Some(file) = env::var_os(OTHER_PROCESS_FILE) else { return };
    let (vault, _) = vault_with_stopped_clock(Arc::new(
        SqliteStore::open_for_command(Path::new(&file)).unwrap(),
    ));
    let directory = Directory::load(&*vault.store, &root_key(), None).await.unwrap();
    let tenants = directory.tenants();
    for at in 0..OTHER_PROCESS_CHANGES {
        create_private_application(
            &vault,
            tenants[at % tenants.len()],
            &directory,
            &format!("beside {at}"),
        )
        .await;
    }
}

fn spawn_other_process(file: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "sqlite::second_process::the_other_process"])
        .env(OTHER_PROCESS_FILE, file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Thousands of tokens by one and hundreds of changes of policy by both: nobody is told that the
/// file is busy, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_concurrently_without_losing_changes() {
    let harness = Arc::new(VaultHarness::open(Engine::Sqlite).await);
    let tenant = harness.tenant(TenantSettings::default()).await;
    harness.tenant(TenantSettings::default()).await;
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let mut child = spawn_other_process(&harness.file());
    let running = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mut writers = task::JoinSet::new();
    for _ in 0..WRITERS {
        let (harness, caller, running) =
            (Arc::clone(&harness), caller.clone(), Arc::clone(&running));
        let tenant = Arc::clone(&tenant);
        writers.spawn(async move {
            let mut ids = Vec::new();
            while running.load(std::sync::atomic::Ordering::Relaxed)
                || ids.len() < TOKENS_MIN / WRITERS
            {
                ids.push(create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id);
                if ids.len() % 50 == 0 {
                    let permit = PolicyPermit::for_operator(Arc::clone(&tenant));
                    set_tenant_quotas(&harness.vault, permit, Box::new(|it| it)).await.unwrap();
                }
            }
            ids
        });
    }
    let status = task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    running.store(false, std::sync::atomic::Ordering::Relaxed);
    let ids: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    assert!(status.success(), "the other process failed");
    assert!(ids.len() >= TOKENS_MIN);
    for id in &ids {
        get(&harness.vault, &caller, id).await;
    }
    let directory = harness.directory().await;
    assert_eq!(directory.alterations(), []);
    let all: usize = directory.tenants().iter().map(|it| it.applications.len()).sum();
    assert_eq!(all, OTHER_PROCESS_CHANGES + 1);
}
