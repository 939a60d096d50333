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
        Caller, Mandate, Name, PolicyEdit, PolicyRecords, PolicyWrite, Settings, Tenant, TenantKind,
    },
    store::Beside,
};
use scrip_seal::Sealed;
use scrip_store::sqlite::backup::copy_database;
use scrip_testing::{
    MemoryStore,
    clock::START,
    policy::{TOKENS, plain},
    requests::{VISA, card, create},
    vault::root_key,
    vault_harness::{Engine, VaultHarness},
};

/// Pieces of the wrapped keys of tenants. Half a key left behind is found too.
struct Traces(HashSet<Vec<u8>>);

const PIECE: usize = 16;
/// As the schema's arithmetic has it.
const PAGE: usize = 4096;

impl Traces {
    /// With a connection of its own, which is closed again: the store's readers stay out of this.
    fn of(file: &Path, tenant: &Arc<Tenant>) -> Self {
        Self::of_each(file, [tenant])
    }

    fn of_each<'a>(file: &Path, tenants: impl IntoIterator<Item = &'a Arc<Tenant>>) -> Self {
        let connection = Connection::open(file).unwrap();
        let mut pieces = HashSet::new();
        for tenant in tenants {
            for sql in WRAPPED {
                let id = [tenant.id.0.as_bytes()];
                let key: Vec<u8> = connection.query_row(sql, id, |row| row.get(0)).unwrap();
                // What comes first says how it was sealed, and is the same in all of them.
                pieces.extend(key[PIECE..].chunks_exact(PIECE).map(<[u8]>::to_vec));
            }
        }
        Self(pieces)
    }

    /// How many of them there are in the files of the database.
    fn found(&self, file: &Path) -> usize {
        let mut found = 0;
        for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm"] {
            let Ok(bytes) = fs::read(file.with_file_name(name)) else { continue };
            found += self.places(&bytes).map(|(_, it)| it).collect::<HashSet<_>>().len();
        }
        found
    }

    /// Where they are. One look at every byte, however many there are to be found.
    fn places<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut begins = vec![false; 1 << 16];
        let begin = |at: &[u8]| usize::from(u16::from_le_bytes([at[0], at[1]]));
        self.0.iter().for_each(|it| begins[begin(it)] = true);
        let each = bytes.windows(PIECE).enumerate();
        each.filter(move |(_, at)| begins[begin(at)] && self.0.contains(*at))
    }
}

/// Where the keys of a tenant are.
const WRAPPED: [&str; 2] = [
    "SELECT wrapped FROM tenant_keys WHERE tenant = ?",
    "SELECT wrapped FROM lasting_keys WHERE tenant = ?",
];

async fn delete(world: &VaultHarness, tenant: &Arc<Tenant>) {
    delete_tenant(&world.vault, Mandate::of_operator(Arc::clone(tenant))).await.unwrap();
}

async fn rename(world: &VaultHarness, tenant: &Arc<Tenant>, name: Name) {
    let mandate = Mandate::of_operator(Arc::clone(tenant));
    update_tenant(&world.vault, mandate, name, Box::new(|it| it), None).await.unwrap();
}

#[tokio::test]
async fn a_deleted_tenants_keys_are_nowhere() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let (tenant, other) =
        (world.tenant(Settings::default()).await, world.tenant(Settings::default()).await);
    let (caller, neighbour) =
        (world.caller(&tenant, plain(TOKENS)).await, world.caller(&other, plain(TOKENS)).await);
    let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    let kept = create(&world.vault, &neighbour, card(VISA)).await.unwrap().token.id;
    let (traces, theirs) = (Traces::of(&world.file(), &tenant), Traces::of(&world.file(), &other));
    // The control: the search finds what is there.
    assert!(traces.found(&world.file()) >= traces.0.len());

    delete(&world, &tenant).await;
    assert_eq!(traces.found(&world.file()), 0);
    assert!(theirs.found(&world.file()) >= theirs.0.len());
    // The token's row may still be there, but what would open it is not to be had.
    assert!(world.directory().await.tenant(tenant.id).is_none());
    let mut gone = world.vault.store.load_directory().await.unwrap().tenants.into_iter();
    assert!(gone.all(|it| it.tenant.record.id != tenant.id));
    get_token(&world.vault, &neighbour, &kept).await.unwrap();
    let sealed = scrip_core::operations::tenants::purge_tenants::purge_tenants(&world.vault, &[])
        .await
        .unwrap();
    assert!(sealed > 0);
    assert_eq!(
        scrip_core::operations::tenants::purge_tenants::purge_tenants(&world.vault, &[])
            .await
            .unwrap(),
        0
    );
    assert!(get_token(&world.vault, &caller, &id).await.is_err());
    get_token(&world.vault, &neighbour, &kept).await.unwrap();
}

/// Rows move between pages as others come and go, and must leave nothing behind where they were.
#[tokio::test]
async fn nor_where_their_rows_once_were() {
    const TENANTS: usize = 48;
    let world = VaultHarness::open(Engine::Sqlite).await;
    let mut tenants = Vec::new();
    for at in 0..TENANTS {
        let tenant = world.tenant(Settings::default()).await;
        if at % 4 == 0 {
            let caller = world.caller(&tenant, plain(TOKENS)).await;
            create(&world.vault, &caller, card(VISA)).await.unwrap();
        }
        tenants.push((Traces::of(&world.file(), &tenant), tenant));
    }
    for (at, (traces, tenant)) in tenants.iter().enumerate() {
        assert!(traces.found(&world.file()) >= traces.0.len(), "{at}");
        delete(&world, tenant).await;
        assert_eq!(traces.found(&world.file()), 0, "{at}");
        scrip_core::operations::tenants::purge_tenants::purge_tenants(&world.vault, &[])
            .await
            .unwrap();
    }
}

/// The same ids in every run, so that the rows lie on the same pages. With these, keys that stand in
/// the rows themselves leave copies behind.
fn fixed_ids(bytes: &mut [u8]) {
    static DRAWN: AtomicU64 = AtomicU64::new(4_800_000);
    let mut drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
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
async fn nor_where_pages_were_rebuilt() {
    const TENANTS: usize = 240;
    /// Has nothing in common with their number, so that each has its turn.
    const STRIDE: usize = 131;
    let mut world = VaultHarness::open(Engine::Sqlite).await;
    world.vault.chance = fixed_ids;
    let name = |at: usize| Name::parse(&"n".repeat(1 + at % 2)).unwrap();
    for at in 0..TENANTS {
        let (kind, settings) = (TenantKind::Test, Settings::default());
        create_tenant(&world.vault, &root_key(), name(at), kind, settings).await.unwrap();
    }
    let directory = world.directory().await;
    let tenants = directory.tenants();
    let mut left: Vec<_> = (0..TENANTS).map(|at| tenants[at * STRIDE % TENANTS]).collect();
    let all = Traces::of_each(&world.file(), left.iter().copied());
    while !left.is_empty() {
        for (at, tenant) in left.iter().enumerate().step_by(4) {
            rename(&world, tenant, name(at / 4 + left.len() / 20)).await;
        }
        for tenant in left.split_off(left.len() - 20) {
            delete(&world, tenant).await;
        }
        let kept = Traces::of_each(&world.file(), left.iter().copied());
        let bytes = fs::read(world.file()).unwrap();
        assert_eq!(all.places(&bytes).count(), kept.0.len(), "{} are left", left.len());
        assert_eq!(all.found(&world.file()), kept.0.len(), "{} are left", left.len());
    }
}

/// Why that is so: a key is not in the part of its row that moves, but on a page that is its own.
#[tokio::test]
async fn keys_lie_where_nothing_moves() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let mut tenants = Vec::new();
    for _ in 0..8 {
        tenants.push(world.tenant(Settings::default()).await);
    }
    let traces = Traces::of_each(&world.file(), &tenants);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    fs::write(&copy, b"").unwrap();
    copy_database(&world.file(), &copy, u64::MAX, |_| ()).unwrap();
    // The log is moved into the file when the last one closes it.
    let world = world.with_store(|| Arc::new(MemoryStore::default()));
    for file in [world.file(), copy] {
        let bytes = fs::read(file).unwrap();
        let places: Vec<_> = traces.places(&bytes).collect();
        assert_eq!(places.len(), traces.0.len());
        for (at, _) in places {
            // The number of the next page of the same row: there is none. A page of rows would
            // begin with its kind, which is not zero.
            let page = &bytes[at / PAGE * PAGE..];
            assert_eq!(page[..4], [0; 4], "on page {}", at / PAGE + 1);
        }
    }
}

/// Nor are they written a second time when something else of the tenant changes.
#[tokio::test]
async fn keys_are_written_once() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let (tenant, other) =
        (world.tenant(Settings::default()).await, world.tenant(Settings::default()).await);
    let traces = Traces::of(&world.file(), &tenant);
    // Cuts the log.
    delete(&world, &other).await;
    assert_eq!(traces.found(&world.file()), traces.0.len());
    rename(&world, &tenant, Name::parse("another").unwrap()).await;
    let log = fs::read(world.file().with_extension("db-wal")).unwrap();
    assert!(log.windows(7).any(|it| it == b"another"));
    assert_eq!(traces.places(&log).count(), 0);
}

/// A key that takes the place of another, of whatever length, leaves nothing of it.
#[tokio::test]
async fn a_replaced_key_is_nowhere() {
    for bytes in [86, 87, 40, 2_000] {
        let world = VaultHarness::open(Engine::Sqlite).await;
        let (tenant, other) =
            (world.tenant(Settings::default()).await, world.tenant(Settings::default()).await);
        let traces = Traces::of(&world.file(), &tenant);
        let key = Arc::clone(&tenant.audit_key);
        let replace = move |records: PolicyRecords| {
            let (mut tenant, seal) = (records.tenant, records.seal);
            tenant.record.keys.lasting = Sealed::from_stored(vec![7; bytes]);
            tenant.record.keys.sealing = vec![(1, Sealed::from_stored(vec![8; bytes]))];
            let audit = AuditRecord::of_operator(Operation::UpdateTenant, &key, START);
            let written = Beside { audit, entity: String::new(), answer: None };
            Ok(PolicyEdit { writes: vec![PolicyWrite::PutTenant(tenant)], seal, written })
        };
        let mandate = Mandate::of_operator(Arc::clone(&tenant));
        world.vault.store.change_policy(mandate, Box::new(replace)).await.unwrap().unwrap();
        assert_eq!(Traces::of(&world.file(), &tenant).0.len(), 2);
        delete(&world, &other).await;
        assert_eq!(traces.found(&world.file()), 0, "{bytes}");
    }
}

/// Whatever else is at work on the file: somebody who reads, and somebody who moves the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_while_others_are_at_work() {
    const TENANTS: usize = 16;
    type Disturb = fn(&Connection);
    let disturbances: [(&str, Disturb); 2] = [
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
        let world = VaultHarness::open(Engine::Sqlite).await;
        let ended = Arc::new(AtomicBool::new(false));
        let (file, until) = (world.file(), Arc::clone(&ended));
        let disturbing = move || {
            let connection = Connection::open(file).unwrap();
            while !until.load(Ordering::Relaxed) {
                disturb(&connection);
            }
        };
        let thread = Builder::new().spawn(disturbing).unwrap();
        let mut left = Vec::new();
        for _ in 0..TENANTS {
            let tenant = world.tenant(Settings::default()).await;
            let caller = world.caller(&tenant, plain(TOKENS)).await;
            let traces = Traces::of(&world.file(), &tenant);
            let writing = async {
                // Those that come after the deletion are refused.
                for _ in 0..4 {
                    drop(create(&world.vault, &caller, card(VISA)).await);
                }
            };
            tokio::join!(delete(&world, &tenant), writing);
            left.push(traces.found(&world.file()));
        }
        ended.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert_eq!(left, [0; TENANTS], "somebody {name}");
    }
}

/// Nor does an answer come with the commit of somebody else, before the log is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_while_others_write() {
    const TENANTS: usize = 16;
    const WRITERS: usize = 4;
    let world = VaultHarness::open(Engine::Sqlite).await;
    let neighbour = world.tenant(Settings::default()).await;
    let neighbour = world.caller(&neighbour, plain(TOKENS)).await;
    let mut tenants = Vec::new();
    for _ in 0..TENANTS {
        tenants.push(world.tenant(Settings::default()).await);
    }
    let ended = Arc::new(AtomicBool::new(false));
    let write = |_| {
        let (vault, caller, until) = (world.vault.clone(), neighbour.clone(), Arc::clone(&ended));
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
        let traces = Traces::of(&world.file(), tenant);
        delete(&world, tenant).await;
        left.push(traces.found(&world.file()));
    }
    ended.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(left, [0; TENANTS]);
}
