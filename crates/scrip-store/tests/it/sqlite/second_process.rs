//! Two processes on one file: a server and an operator command.

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
    policy::{
        Directory, DisplayName, PolicyPermit, Tenant, application::origins::ApplicationOrigins,
    },
    store::{DirectoryStore, Maintenance, open_directory},
    types::ApplicationKind,
};
use scrip_store::SqliteStore;
use scrip_testing::{
    policy::{TOKENS, access_without_rules},
    requests::{VISA, card, create, get},
    vault::root_key,
    vault_harness::{Engine, VaultHarness, vault_with_stopped_clock},
};
use tokio::{task, time::timeout};

/// The environment variable that makes the test binary act as the other process. Its value is the
/// path of the file.
const OTHER_PROCESS_FILE: &str = "SCRIP_TEST_OTHER_PROCESS_FILE";
const OTHER_PROCESS_CHANGE_COUNT: usize = 300;
const TOKENS_MIN: usize = 3200;
const WRITER_COUNT: usize = 32;

async fn open_and_close(
    open: fn(&Path) -> Result<SqliteStore, scrip_core::types::StoreError>,
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
    let new_application = NewApplication {
        name: DisplayName::parse(name).unwrap(),
        kind: ApplicationKind::Private,
        access: access_without_rules(TOKENS),
        origins: ApplicationOrigins::default(),
        create_key: CreateKey::Yes,
    };
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    create_application(vault, permit, directory.pepper(), new_application, None).await.unwrap();
}

#[tokio::test]
async fn second_server_on_the_same_file_is_rejected() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let file = harness.file();
    let second = task::spawn_blocking(move || SqliteStore::open(&file));
    let second = timeout(Duration::from_secs(10), second).await.unwrap().unwrap();
    assert!(format!("{:?}", second.unwrap_err()).contains("another process"));
    // The first server still works.
    harness.default_tenant().await;
    // After it has stopped, another server can open the file.
    let file = harness.file();
    let harness = harness.with_store(|| Arc::new(SqliteStore::open(&file).unwrap()));
    assert_eq!(harness.directory().await.tenants().len(), 1);
}

/// A command that starts first releases the lock before a server needs it.
#[tokio::test]
async fn command_without_a_server_creates_the_file_and_releases_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scrip.db");
    let command = SqliteStore::open_for_command(&file).unwrap();
    assert_eq!(command.directory_version().await.unwrap(), 0);
    // The command still has the file open, and another command can open it too.
    let second_command = SqliteStore::open_for_command(&file).unwrap();
    let server = SqliteStore::open(&file).unwrap();
    for store in [&command, &second_command, &server] {
        store.check_ready().await.unwrap();
    }
    drop(server);
    open_and_close(SqliteStore::open, &file).await;
}

#[tokio::test]
async fn command_with_another_schema_version_is_rejected() {
    let assert_rejected = |file: &Path, expected: &str| {
        let problem = format!("{:?}", SqliteStore::open_for_command(file).unwrap_err());
        assert!(problem.contains(expected), "{problem}");
    };
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let attacker = Connection::open(harness.file()).unwrap();
    let version: i64 = attacker.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    for other_version in [version - 1, version + 1, 0] {
        attacker.pragma_update(None, "user_version", other_version).unwrap();
        assert_rejected(&harness.file(), "another version");
    }
    attacker.pragma_update(None, "user_version", version).unwrap();
    open_and_close(SqliteStore::open_for_command, &harness.file()).await;

    let folder = tempfile::tempdir().unwrap();
    let file_without_server = folder.path().join("scrip.db");
    open_and_close(SqliteStore::open_for_command, &file_without_server).await;
    let attacker = Connection::open(&file_without_server).unwrap();
    for (other_version, expected) in
        [(version + 1, "newer version"), (version - 1, "early version")]
    {
        attacker.pragma_update(None, "user_version", other_version).unwrap();
        assert_rejected(&file_without_server, expected);
        assert!(SqliteStore::open(&file_without_server).is_err());
    }
}

/// Each process sees the changes of the other: first the version, then the rows.
#[tokio::test]
async fn server_sees_changes_made_by_a_command() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let (tenant, caller) = harness.tenant_with_default_caller().await;
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let server_directory = harness.directory().await;

    let (command_vault, _) =
        vault_with_stopped_clock(Arc::new(SqliteStore::open_for_command(&harness.file()).unwrap()));
    let command_directory = open_directory(&*command_vault.store, &root_key(), None).await.unwrap();
    assert_eq!(command_directory.version(), server_directory.version());
    let command_tenant = command_directory.tenant(tenant.id).unwrap();
    create_private_application(&command_vault, command_tenant, &command_directory, "command").await;
    assert!(harness.vault.store.directory_version().await.unwrap() > server_directory.version());
    let reloaded = harness.reload(Some(&server_directory)).await.unwrap();
    assert_eq!(reloaded.alterations(), []);
    assert_eq!(reloaded.tenant(tenant.id).unwrap().applications.len(), 2);
    get(&harness.vault, &caller, &id).await;

    delete_tenant(&command_vault, PolicyPermit::for_operator(Arc::clone(command_tenant)))
        .await
        .unwrap();
    let reloaded = harness.reload(Some(&reloaded)).await.unwrap();
    assert!(reloaded.tenant(tenant.id).is_none() && reloaded.alterations().is_empty());
}

/// A server under load releases the lock only for moments, and a waiting command polls for it.
#[tokio::test]
async fn command_waits_longer_for_the_lock_than_the_server() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.default_tenant().await;
    let directory = harness.directory().await;
    let (command_vault, _) =
        vault_with_stopped_clock(Arc::new(SqliteStore::open_for_command(&harness.file()).unwrap()));
    let lock = Connection::open(harness.file()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let release = task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_secs(6));
        lock.execute_batch("COMMIT").unwrap();
    });
    create_private_application(&command_vault, &tenant, &directory, "command").await;
    release.await.unwrap();
}

/// This is not a test: it runs the other process.
#[tokio::test]
async fn run_as_other_process() {
    let Some(file) = env::var_os(OTHER_PROCESS_FILE) else { return };
    let (vault, _) = vault_with_stopped_clock(Arc::new(
        SqliteStore::open_for_command(Path::new(&file)).unwrap(),
    ));
    let directory = open_directory(&*vault.store, &root_key(), None).await.unwrap();
    let tenants = directory.tenants();
    for number in 0..OTHER_PROCESS_CHANGE_COUNT {
        create_private_application(
            &vault,
            tenants[number % tenants.len()],
            &directory,
            &format!("command {number}"),
        )
        .await;
    }
}

fn spawn_other_process(file: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "sqlite::second_process::run_as_other_process"])
        .env(OTHER_PROCESS_FILE, file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// One process writes thousands of tokens, and both make hundreds of policy changes: no write fails
/// as busy, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_concurrently_without_losing_changes() {
    let harness = Arc::new(VaultHarness::open(Engine::Sqlite).await);
    let tenant = harness.default_tenant().await;
    harness.default_tenant().await;
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let child = spawn_other_process(&harness.file());
    let is_running = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mut writers = task::JoinSet::new();
    for _ in 0..WRITER_COUNT {
        let (harness, caller, is_running) =
            (Arc::clone(&harness), caller.clone(), Arc::clone(&is_running));
        let tenant = Arc::clone(&tenant);
        writers.spawn(async move {
            let mut ids = Vec::new();
            while is_running.load(std::sync::atomic::Ordering::Relaxed)
                || ids.len() < TOKENS_MIN / WRITER_COUNT
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
    let output = task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    is_running.store(false, std::sync::atomic::Ordering::Relaxed);
    let ids: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(ids.len() >= TOKENS_MIN);
    for id in &ids {
        get(&harness.vault, &caller, id).await;
    }
    let directory = harness.directory().await;
    assert_eq!(directory.alterations(), []);
    let application_count: usize = directory.tenants().iter().map(|it| it.applications.len()).sum();
    assert_eq!(application_count, OTHER_PROCESS_CHANGE_COUNT + 1);
}
