//! The keys of a deleted tenant are nowhere on the disk, so its data cannot be decrypted, even with
//! the root key.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::Builder,
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::{
    audit::AuditRecord,
    change::{CommitExtras, PolicyEdit},
    operations::{
        tenants::{
            create_tenant::create_tenant, delete_tenant::delete_tenant,
            update_tenant::update_tenant,
        },
        tokens::get_token::get_token,
    },
    policy::{
        Caller, DisplayName, PolicyPermit, PolicyRecords, PolicyWrite, Tenant, TenantSettings,
    },
    types::{Operation, TenantKind},
};
use scrip_seal::Sealed;
use scrip_store::sqlite::backup::copy_database;
use scrip_testing::{
    MemoryStore,
    clock::START,
    policy::{TOKENS, access_without_rules},
    requests::{VISA, card, create},
    vault::root_key,
    vault_harness::{Engine, VaultHarness},
};

/// Pieces of the wrapped keys of tenants. Pieces also detect a partial copy of a key.
struct KeyTraces(HashSet<Vec<u8>>);

const PIECE_BYTES: usize = 16;
/// The page size of the schema.
const PAGE_BYTES: usize = 4096;

impl KeyTraces {
    /// Reads over a separate connection, which is closed again, so that the store's readers are not
    /// involved.
    fn for_tenant(file: &Path, tenant: &Arc<Tenant>) -> Self {
        Self::for_tenants(file, [tenant])
    }

    fn for_tenants<'a>(file: &Path, tenants: impl IntoIterator<Item = &'a Arc<Tenant>>) -> Self {
        let connection = Connection::open(file).unwrap();
        let mut pieces = HashSet::new();
        for tenant in tenants {
            for sql in FIND_WRAPPED_KEYS {
                let id = [tenant.id.0.as_bytes()];
                let key: Vec<u8> = connection.query_row(sql, id, |row| row.get(0)).unwrap();
                // The first bytes are a header that all sealed values have in common.
                pieces.extend(key[PIECE_BYTES..].chunks_exact(PIECE_BYTES).map(<[u8]>::to_vec));
            }
        }
        Self(pieces)
    }

    /// Counts the pieces in the files of the database.
    fn count_in_files(&self, file: &Path) -> usize {
        let mut count = 0;
        for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm"] {
            let Ok(bytes) = fs::read(file.with_file_name(name)) else { continue };
            count += self.find_in(&bytes).map(|(_, it)| it).collect::<HashSet<_>>().len();
        }
        count
    }

    /// Finds the positions of the pieces. Reads every byte once, for any number of pieces.
    fn find_in<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut has_prefix = vec![false; 1 << 16];
        let prefix = |piece: &[u8]| usize::from(u16::from_le_bytes([piece[0], piece[1]]));
        self.0.iter().for_each(|it| has_prefix[prefix(it)] = true);
        let windows = bytes.windows(PIECE_BYTES).enumerate();
        windows.filter(move |(_, it)| has_prefix[prefix(it)] && self.0.contains(*it))
    }
}

/// Finds the wrapped keys of a tenant.
const FIND_WRAPPED_KEYS: [&str; 2] = [
    "SELECT wrapped FROM tenant_keys WHERE tenant = ?",
    "SELECT wrapped FROM permanent_keys WHERE tenant = ?",
];

async fn delete_tenant_by_operator(harness: &VaultHarness, tenant: &Arc<Tenant>) {
    delete_tenant(&harness.vault, PolicyPermit::for_operator(Arc::clone(tenant))).await.unwrap();
}

async fn rename_tenant(harness: &VaultHarness, tenant: &Arc<Tenant>, name: DisplayName) {
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    update_tenant(&harness.vault, permit, name, Box::new(|it| it), None).await.unwrap();
}

#[tokio::test]
async fn deleted_tenant_keys_are_overwritten_on_disk() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let (tenant, other_tenant) = (harness.default_tenant().await, harness.default_tenant().await);
    let (caller, other_caller) = (
        harness.caller(&tenant, access_without_rules(TOKENS)).await,
        harness.caller(&other_tenant, access_without_rules(TOKENS)).await,
    );
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let other_id = create(&harness.vault, &other_caller, card(VISA)).await.unwrap().token.id;
    let (traces, other_traces) = (
        KeyTraces::for_tenant(&harness.file(), &tenant),
        KeyTraces::for_tenant(&harness.file(), &other_tenant),
    );
    // Control: the search finds existing keys.
    assert!(traces.count_in_files(&harness.file()) >= traces.0.len());

    delete_tenant_by_operator(&harness, &tenant).await;
    assert_eq!(traces.count_in_files(&harness.file()), 0);
    assert!(other_traces.count_in_files(&harness.file()) >= other_traces.0.len());
    // The row of the token may still exist, but its key does not.
    assert!(harness.directory().await.tenant(tenant.id).is_none());
    let mut stored_tenants =
        harness.vault.store.load_directory().await.unwrap().tenants.into_iter();
    assert!(stored_tenants.all(|it| it.tenant.record.id != tenant.id));
    get_token(&harness.vault, &other_caller, &other_id).await.unwrap();
    let purged_count =
        scrip_core::operations::tenants::purge_tenants::purge_tenants(&harness.vault, &[])
            .await
            .unwrap();
    assert!(purged_count > 0);
    assert_eq!(
        scrip_core::operations::tenants::purge_tenants::purge_tenants(&harness.vault, &[])
            .await
            .unwrap(),
        0
    );
    assert!(get_token(&harness.vault, &caller, &id).await.is_err());
    get_token(&harness.vault, &other_caller, &other_id).await.unwrap();
}

/// Rows move between pages when other rows change, and must leave no copy behind.
#[tokio::test]
async fn deleted_tenant_keys_leave_no_copy_when_rows_move() {
    const TENANT_COUNT: usize = 48;
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let mut tenants = Vec::new();
    for index in 0..TENANT_COUNT {
        let tenant = harness.default_tenant().await;
        if index % 4 == 0 {
            let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
            create(&harness.vault, &caller, card(VISA)).await.unwrap();
        }
        tenants.push((KeyTraces::for_tenant(&harness.file(), &tenant), tenant));
    }
    for (index, (traces, tenant)) in tenants.iter().enumerate() {
        assert!(traces.count_in_files(&harness.file()) >= traces.0.len(), "tenant {index}");
        delete_tenant_by_operator(&harness, tenant).await;
        assert_eq!(traces.count_in_files(&harness.file()), 0, "tenant {index}");
        scrip_core::operations::tenants::purge_tenants::purge_tenants(&harness.vault, &[])
            .await
            .unwrap();
    }
}

/// Generates the same ids in every run, so that the rows are on the same pages. With these ids,
/// keys that are stored in the rows would leave copies.
fn fill_with_fixed_ids(bytes: &mut [u8]) {
    static NEXT_SEED: AtomicU64 = AtomicU64::new(4_800_000);
    let mut state = NEXT_SEED.fetch_add(1, Ordering::Relaxed);
    for byte in bytes {
        // Uses the high bits of a linear congruential generator.
        state = state.wrapping_add(1).wrapping_mul(6_364_136_223_846_793_005);
        *byte = state.to_be_bytes()[0];
    }
}

/// Hundreds of rows differ by one byte in length. Gaps that are almost wide enough make SQLite
/// rebuild a page, and old content stays in place. So there must never be a second copy, even of a
/// key in use.
#[tokio::test]
async fn deleted_tenant_keys_leave_no_copy_when_pages_are_rebuilt() {
    const TENANT_COUNT: usize = 240;
    /// Coprime to the number of tenants, so that each tenant is deleted once.
    const STRIDE: usize = 131;
    let mut harness = VaultHarness::open(Engine::Sqlite).await;
    harness.vault.fill_random = fill_with_fixed_ids;
    let name = |index: usize| DisplayName::parse(&"n".repeat(1 + index % 2)).unwrap();
    for index in 0..TENANT_COUNT {
        let (kind, settings) = (TenantKind::Test, TenantSettings::default());
        create_tenant(&harness.vault, &root_key(), name(index), kind, settings).await.unwrap();
    }
    let directory = harness.directory().await;
    let tenants = directory.tenants();
    let mut remaining_tenants: Vec<_> =
        (0..TENANT_COUNT).map(|index| tenants[index * STRIDE % TENANT_COUNT]).collect();
    let all_traces = KeyTraces::for_tenants(&harness.file(), remaining_tenants.iter().copied());
    while !remaining_tenants.is_empty() {
        for (index, tenant) in remaining_tenants.iter().enumerate().step_by(4) {
            rename_tenant(&harness, tenant, name(index / 4 + remaining_tenants.len() / 20)).await;
        }
        for tenant in remaining_tenants.split_off(remaining_tenants.len() - 20) {
            delete_tenant_by_operator(&harness, tenant).await;
        }
        let remaining_traces =
            KeyTraces::for_tenants(&harness.file(), remaining_tenants.iter().copied());
        let bytes = fs::read(harness.file()).unwrap();
        assert_eq!(
            all_traces.find_in(&bytes).count(),
            remaining_traces.0.len(),
            "{} tenants remain",
            remaining_tenants.len()
        );
        assert_eq!(
            all_traces.count_in_files(&harness.file()),
            remaining_traces.0.len(),
            "{} tenants remain",
            remaining_tenants.len()
        );
    }
}

/// A key is on its own overflow page and not in the part of its row that moves.
#[tokio::test]
async fn tenant_keys_are_stored_on_dedicated_pages() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let mut tenants = Vec::new();
    for _ in 0..8 {
        tenants.push(harness.default_tenant().await);
    }
    let traces = KeyTraces::for_tenants(&harness.file(), &tenants);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    fs::write(&copy, b"").unwrap();
    copy_database(&harness.file(), &copy, u64::MAX, |_| ()).unwrap();
    // The WAL is checkpointed when the last connection closes.
    let harness = harness.with_store(|| Arc::new(MemoryStore::default()));
    for file in [harness.file(), copy] {
        let bytes = fs::read(file).unwrap();
        let positions: Vec<_> = traces.find_in(&bytes).collect();
        assert_eq!(positions.len(), traces.0.len());
        for (position, _) in positions {
            // An overflow page begins with the number of the next overflow page of the row, which
            // is zero for the last one. A b-tree page begins with its type, which is not zero.
            let page = &bytes[position / PAGE_BYTES * PAGE_BYTES..];
            assert_eq!(page[..4], [0; 4], "on page {}", position / PAGE_BYTES + 1);
        }
    }
}

/// Keys are not written again when other rows of the tenant change.
#[tokio::test]
async fn changing_a_tenant_does_not_rewrite_its_keys() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let (tenant, other_tenant) = (harness.default_tenant().await, harness.default_tenant().await);
    let traces = KeyTraces::for_tenant(&harness.file(), &tenant);
    // The deletion truncates the WAL.
    delete_tenant_by_operator(&harness, &other_tenant).await;
    assert_eq!(traces.count_in_files(&harness.file()), traces.0.len());
    rename_tenant(&harness, &tenant, DisplayName::parse("another").unwrap()).await;
    let wal = fs::read(harness.file().with_extension("db-wal")).unwrap();
    assert!(wal.windows(7).any(|it| it == b"another"));
    assert_eq!(traces.find_in(&wal).count(), 0);
}

/// A replaced key of any length leaves no bytes on disk.
#[tokio::test]
async fn replaced_key_is_overwritten_on_disk() {
    for length in [86, 87, 40, 2_000] {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let (tenant, other_tenant) =
            (harness.default_tenant().await, harness.default_tenant().await);
        let traces = KeyTraces::for_tenant(&harness.file(), &tenant);
        let key = Arc::clone(&tenant.audit_key);
        let permit = PolicyPermit::for_operator(Arc::clone(&tenant));
        let loaded = harness.vault.store.load_policy(&permit).await.unwrap().unwrap();
        let replace_keys = move |records: PolicyRecords| {
            let (mut tenant, seal) = (records.tenant, records.seal);
            tenant.record.keys.permanent = Sealed::from_stored(vec![7; length]);
            tenant.record.keys.sealing = vec![(1, Sealed::from_stored(vec![8; length]))];
            let audit = AuditRecord::for_operator(Operation::UpdateTenant, &key, START);
            let (entity, deliveries) = (String::new(), Vec::new());
            let extras = CommitExtras { audit, entity, idempotency: None, deliveries };
            let (writes, destroyed_versions) = (vec![PolicyWrite::put(tenant)], Vec::new());
            PolicyEdit { base: seal, writes, seal, extras, destroyed_versions }
        };
        let edit = replace_keys(loaded.records);
        harness.vault.store.change_policy(permit, edit).await.unwrap().unwrap();
        drop(loaded.turn);
        assert_eq!(KeyTraces::for_tenant(&harness.file(), &tenant).0.len(), 2);
        delete_tenant_by_operator(&harness, &other_tenant).await;
        assert_eq!(traces.count_in_files(&harness.file()), 0, "key of {length} bytes");
    }
}

/// A second connection reads or checkpoints during the deletions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_tenant_responds_only_after_wal_truncation_despite_readers_and_checkpoints() {
    const TENANT_COUNT: usize = 16;
    type Disturbance = fn(&Connection);
    let disturbances: [(&str, Disturbance); 2] = [
        ("reads", |it| {
            it.execute_batch("BEGIN; SELECT count(*) FROM tenants").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            it.execute_batch("COMMIT").unwrap();
        }),
        ("checkpoints", |it| {
            let outcome: Result<i64, _> =
                it.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0));
            drop(outcome);
        }),
    ];
    for (name, disturb) in disturbances {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (file, stop_signal) = (harness.file(), Arc::clone(&is_stopped));
        let run_disturbance = move || {
            let connection = Connection::open(file).unwrap();
            while !stop_signal.load(Ordering::Relaxed) {
                disturb(&connection);
            }
        };
        let thread = Builder::new().spawn(run_disturbance).unwrap();
        let mut remaining_counts = Vec::new();
        for _ in 0..TENANT_COUNT {
            let (tenant, caller) = harness.tenant_with_default_caller().await;
            let traces = KeyTraces::for_tenant(&harness.file(), &tenant);
            let write_tokens = async {
                // Requests after the deletion are rejected.
                for _ in 0..4 {
                    drop(create(&harness.vault, &caller, card(VISA)).await);
                }
            };
            tokio::join!(delete_tenant_by_operator(&harness, &tenant), write_tokens);
            remaining_counts.push(traces.count_in_files(&harness.file()));
        }
        is_stopped.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert_eq!(remaining_counts, [0; TENANT_COUNT], "a second connection {name}");
    }
}

/// The response must not come with the commit of another write before the WAL is truncated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_tenant_responds_only_after_wal_truncation_despite_writers() {
    const TENANT_COUNT: usize = 16;
    const WRITER_COUNT: usize = 4;
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let other_tenant = harness.default_tenant().await;
    let other_caller = harness.caller(&other_tenant, access_without_rules(TOKENS)).await;
    let mut tenants = Vec::new();
    for _ in 0..TENANT_COUNT {
        tenants.push(harness.default_tenant().await);
    }
    let is_stopped = Arc::new(AtomicBool::new(false));
    let spawn_writer = |_| {
        let (vault, caller, stop_signal) =
            (harness.vault.clone(), other_caller.clone(), Arc::clone(&is_stopped));
        tokio::spawn(async move {
            while !stop_signal.load(Ordering::Relaxed) {
                // Each request has its own evaluation budget.
                let (principal, origin) = (Arc::clone(caller.principal()), caller.origin().clone());
                let caller = Caller::new(principal, origin);
                create(&vault, &caller, card(VISA)).await.unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..WRITER_COUNT).map(spawn_writer).collect();
    let mut remaining_counts = Vec::new();
    for tenant in &tenants {
        let traces = KeyTraces::for_tenant(&harness.file(), tenant);
        delete_tenant_by_operator(&harness, tenant).await;
        remaining_counts.push(traces.count_in_files(&harness.file()));
    }
    is_stopped.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(remaining_counts, [0; TENANT_COUNT]);
}
