//! A deleted tenant's keys are nowhere on the disk, so nothing of it opens, also for the root key.

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
    audit::{AuditRecord, Operation},
    operations::{
        tenants::{
            create_tenant::create_tenant, delete_tenant::delete_tenant,
            update_tenant::update_tenant,
        },
        tokens::get_token::get_token,
    },
    policy::{
        Caller, DisplayName, PolicyEdit, PolicyPermit, PolicyRecords, PolicyWrite, Tenant,
        TenantKind, TenantSettings,
    },
    store::CommitExtras,
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

/// Pieces of the wrapped keys of tenants. Half a key left behind is found too.
struct KeyTraces(HashSet<Vec<u8>>);

const PIECE_BYTES: usize = 16;
/// As the schema's arithmetic has it.
const PAGE_BYTES: usize = 4096;

impl KeyTraces {
    /// With a connection of its own, which is closed again: the store's readers stay out of this.
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
                // What comes first says how it was sealed, and is the same in all of them.
                pieces.extend(key[PIECE_BYTES..].chunks_exact(PIECE_BYTES).map(<[u8]>::to_vec));
            }
        }
        Self(pieces)
    }

    /// How many of them there are in the files of the database.
    fn count_in_files(&self, file: &Path) -> usize {
        let mut found = 0;
        for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm"] {
            let Ok(bytes) = fs::read(file.with_file_name(name)) else { continue };
            found += self.find_in(&bytes).map(|(_, it)| it).collect::<HashSet<_>>().len();
        }
        found
    }

    /// Where they are. One look at every byte, however many there are to be found.
    fn find_in<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut begins = vec![false; 1 << 16];
        let begin = |at: &[u8]| usize::from(u16::from_le_bytes([at[0], at[1]]));
        self.0.iter().for_each(|it| begins[begin(it)] = true);
        let each = bytes.windows(PIECE_BYTES).enumerate();
        each.filter(move |(_, at)| begins[begin(at)] && self.0.contains(*at))
    }
}

/// Where the keys of a tenant are.
const FIND_WRAPPED_KEYS: [&str; 2] = [
    "SELECT wrapped FROM tenant_keys WHERE tenant = ?",
    "SELECT wrapped FROM lasting_keys WHERE tenant = ?",
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
    let (tenant, other) = (
        harness.tenant(TenantSettings::default()).await,
        harness.tenant(TenantSettings::default()).await,
    );
    let (caller, neighbour) = (
        harness.caller(&tenant, access_without_rules(TOKENS)).await,
        harness.caller(&other, access_without_rules(TOKENS)).await,
    );
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let remaining = create(&harness.vault, &neighbour, card(VISA)).await.unwrap().token.id;
    let (traces, theirs) = (
        KeyTraces::for_tenant(&harness.file(), &tenant),
        KeyTraces::for_tenant(&harness.file(), &other),
    );
    // The control: the search finds what is there.
    assert!(traces.count_in_files(&harness.file()) >= traces.0.len());

    delete_tenant_by_operator(&harness, &tenant).await;
    assert_eq!(traces.count_in_files(&harness.file()), 0);
    assert!(theirs.count_in_files(&harness.file()) >= theirs.0.len());
    // The token's row may still be there, but what would open it is not to be had.
    assert!(harness.directory().await.tenant(tenant.id).is_none());
    let mut gone = harness.vault.store.load_directory().await.unwrap().tenants.into_iter();
    assert!(gone.all(|it| it.tenant.record.id != tenant.id));
    get_token(&harness.vault, &neighbour, &remaining).await.unwrap();
    let sealed = scrip_core::operations::tenants::purge_tenants::purge_tenants(&harness.vault, &[])
        .await
        .unwrap();
    assert!(sealed > 0);
    assert_eq!(
        scrip_core::operations::tenants::purge_tenants::purge_tenants(&harness.vault, &[])
            .await
            .unwrap(),
        0
    );
    assert!(get_token(&harness.vault, &caller, &id).await.is_err());
    get_token(&harness.vault, &neighbour, &remaining).await.unwrap();
}

/// Rows move between pages as others come and go, and must leave nothing behind where they were.
#[tokio::test]
async fn deleted_tenant_keys_leave_no_copy_when_rows_move() {
    const TENANTS: usize = 48;
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let mut tenants = Vec::new();
    for at in 0..TENANTS {
        let tenant = harness.tenant(TenantSettings::default()).await;
        if at % 4 == 0 {
            let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
            create(&harness.vault, &caller, card(VISA)).await.unwrap();
        }
        tenants.push((KeyTraces::for_tenant(&harness.file(), &tenant), tenant));
    }
    for (at, (traces, tenant)) in tenants.iter().enumerate() {
        assert!(traces.count_in_files(&harness.file()) >= traces.0.len(), "{at}");
        delete_tenant_by_operator(&harness, tenant).await;
        assert_eq!(traces.count_in_files(&harness.file()), 0, "{at}");
        scrip_core::operations::tenants::purge_tenants::purge_tenants(&harness.vault, &[])
            .await
            .unwrap();
    }
}

/// The same ids in every run, so that the rows lie on the same pages. With these, keys that stand in
/// the rows themselves leave copies behind.
fn fill_with_fixed_ids(bytes: &mut [u8]) {
    static NEXT_SEED: AtomicU64 = AtomicU64::new(4_800_000);
    let mut drawn = NEXT_SEED.fetch_add(1, Ordering::Relaxed);
    for byte in bytes {
        // Of the usual multiplier the high bits.
        drawn = drawn.wrapping_add(1).wrapping_mul(6_364_136_223_846_793_005);
        *byte = drawn.to_be_bytes()[0];
    }
}

/// The same with hundreds, whose rows differ by a byte: gaps that are almost wide enough make the
/// engine rebuild a page, and what it moved it leaves where it was. So there must never be a second
/// copy, also of a key that is still in use.
#[tokio::test]
async fn deleted_tenant_keys_leave_no_copy_when_pages_are_rebuilt() {
    const TENANTS: usize = 240;
    /// Has nothing in common with their number, so that each has its turn.
    const STRIDE: usize = 131;
    let mut harness = VaultHarness::open(Engine::Sqlite).await;
    harness.vault.fill_random = fill_with_fixed_ids;
    let name = |at: usize| DisplayName::parse(&"n".repeat(1 + at % 2)).unwrap();
    for at in 0..TENANTS {
        let (kind, settings) = (TenantKind::Test, TenantSettings::default());
        create_tenant(&harness.vault, &root_key(), name(at), kind, settings).await.unwrap();
    }
    let directory = harness.directory().await;
    let tenants = directory.tenants();
    let mut left: Vec<_> = (0..TENANTS).map(|at| tenants[at * STRIDE % TENANTS]).collect();
    let all = KeyTraces::for_tenants(&harness.file(), left.iter().copied());
    while !left.is_empty() {
        for (at, tenant) in left.iter().enumerate().step_by(4) {
            rename_tenant(&harness, tenant, name(at / 4 + left.len() / 20)).await;
        }
        for tenant in left.split_off(left.len() - 20) {
            delete_tenant_by_operator(&harness, tenant).await;
        }
        let remaining = KeyTraces::for_tenants(&harness.file(), left.iter().copied());
        let bytes = fs::read(harness.file()).unwrap();
        assert_eq!(all.find_in(&bytes).count(), remaining.0.len(), "{} are left", left.len());
        assert_eq!(
            all.count_in_files(&harness.file()),
            remaining.0.len(),
            "{} are left",
            left.len()
        );
    }
}

/// Why that is so: a key is not in the part of its row that moves, but on a page that is its own.
#[tokio::test]
async fn tenant_keys_are_stored_on_dedicated_pages() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let mut tenants = Vec::new();
    for _ in 0..8 {
        tenants.push(harness.tenant(TenantSettings::default()).await);
    }
    let traces = KeyTraces::for_tenants(&harness.file(), &tenants);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    fs::write(&copy, b"").unwrap();
    copy_database(&harness.file(), &copy, u64::MAX, |_| ()).unwrap();
    // The log is moved into the file when the last one closes it.
    let harness = harness.with_store(|| Arc::new(MemoryStore::default()));
    for file in [harness.file(), copy] {
        let bytes = fs::read(file).unwrap();
        let places: Vec<_> = traces.find_in(&bytes).collect();
        assert_eq!(places.len(), traces.0.len());
        for (at, _) in places {
            // The number of the next page of the same row: there is none. A page of rows would
            // begin with its kind, which is not zero.
            let page = &bytes[at / PAGE_BYTES * PAGE_BYTES..];
            assert_eq!(page[..4], [0; 4], "on page {}", at / PAGE_BYTES + 1);
        }
    }
}

/// Nor are they written a second time when something else of the tenant changes.
#[tokio::test]
async fn changing_a_tenant_does_not_rewrite_its_keys() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let (tenant, other) = (
        harness.tenant(TenantSettings::default()).await,
        harness.tenant(TenantSettings::default()).await,
    );
    let traces = KeyTraces::for_tenant(&harness.file(), &tenant);
    // Cuts the log.
    delete_tenant_by_operator(&harness, &other).await;
    assert_eq!(traces.count_in_files(&harness.file()), traces.0.len());
    rename_tenant(&harness, &tenant, DisplayName::parse("another").unwrap()).await;
    let log = fs::read(harness.file().with_extension("db-wal")).unwrap();
    assert!(log.windows(7).any(|it| it == b"another"));
    assert_eq!(traces.find_in(&log).count(), 0);
}

/// A key that takes the place of another, of whatever length, leaves nothing of it.
#[tokio::test]
async fn replaced_key_is_overwritten_on_disk() {
    for bytes in [86, 87, 40, 2_000] {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let (tenant, other) = (
            harness.tenant(TenantSettings::default()).await,
            harness.tenant(TenantSettings::default()).await,
        );
        let traces = KeyTraces::for_tenant(&harness.file(), &tenant);
        let key = Arc::clone(&tenant.audit_key);
        let replace = move |records: PolicyRecords| {
            let (mut tenant, seal) = (records.tenant, records.seal);
            tenant.record.keys.permanent = Sealed::from_stored(vec![7; bytes]);
            tenant.record.keys.sealing = vec![(1, Sealed::from_stored(vec![8; bytes]))];
            let audit = AuditRecord::for_operator(Operation::UpdateTenant, &key, START);
            let written = CommitExtras { audit, entity: String::new(), idempotency: None };
            Ok(PolicyEdit { writes: vec![PolicyWrite::PutTenant(tenant)], seal, extras: written })
        };
        let permit = PolicyPermit::for_operator(Arc::clone(&tenant));
        harness.vault.store.change_policy(permit, Box::new(replace)).await.unwrap().unwrap();
        assert_eq!(KeyTraces::for_tenant(&harness.file(), &tenant).0.len(), 2);
        delete_tenant_by_operator(&harness, &other).await;
        assert_eq!(traces.count_in_files(&harness.file()), 0, "{bytes}");
    }
}

/// Whatever else is at work on the file: somebody who reads, and somebody who moves the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_tenant_responds_only_after_wal_truncation_despite_readers_and_checkpoints() {
    const TENANTS: usize = 16;
    type Disturbance = fn(&Connection);
    let disturbances: [(&str, Disturbance); 2] = [
        ("reads", |it| {
            it.execute_batch("BEGIN; SELECT count(*) FROM tenants").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            it.execute_batch("COMMIT").unwrap();
        }),
        ("moves", |it| {
            let moved: Result<i64, _> =
                it.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0));
            drop(moved);
        }),
    ];
    for (name, disturb) in disturbances {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let ended = Arc::new(AtomicBool::new(false));
        let (file, until) = (harness.file(), Arc::clone(&ended));
        let disturbing = move || {
            let connection = Connection::open(file).unwrap();
            while !until.load(Ordering::Relaxed) {
                disturb(&connection);
            }
        };
        let thread = Builder::new().spawn(disturbing).unwrap();
        let mut left = Vec::new();
        for _ in 0..TENANTS {
            let tenant = harness.tenant(TenantSettings::default()).await;
            let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
            let traces = KeyTraces::for_tenant(&harness.file(), &tenant);
            let writing = async {
                // Those that come after the deletion are refused.
                for _ in 0..4 {
                    drop(create(&harness.vault, &caller, card(VISA)).await);
                }
            };
            tokio::join!(delete_tenant_by_operator(&harness, &tenant), writing);
            left.push(traces.count_in_files(&harness.file()));
        }
        ended.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert_eq!(left, [0; TENANTS], "somebody {name}");
    }
}

/// Nor does an answer come with the commit of somebody else, before the log is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_tenant_responds_only_after_wal_truncation_despite_writers() {
    const TENANTS: usize = 16;
    const WRITERS: usize = 4;
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let neighbour = harness.tenant(TenantSettings::default()).await;
    let neighbour = harness.caller(&neighbour, access_without_rules(TOKENS)).await;
    let mut tenants = Vec::new();
    for _ in 0..TENANTS {
        tenants.push(harness.tenant(TenantSettings::default()).await);
    }
    let ended = Arc::new(AtomicBool::new(false));
    let write = |_| {
        let (vault, caller, until) = (harness.vault.clone(), neighbour.clone(), Arc::clone(&ended));
        tokio::spawn(async move {
            while !until.load(Ordering::Relaxed) {
                // Each request has an evaluation budget of its own.
                let (principal, origin) = (Arc::clone(caller.principal()), caller.origin().clone());
                let caller = Caller::new(principal, origin);
                create(&vault, &caller, card(VISA)).await.unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    let mut left = Vec::new();
    for tenant in &tenants {
        let traces = KeyTraces::for_tenant(&harness.file(), tenant);
        delete_tenant_by_operator(&harness, tenant).await;
        left.push(traces.count_in_files(&harness.file()));
    }
    ended.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(left, [0; TENANTS]);
}
