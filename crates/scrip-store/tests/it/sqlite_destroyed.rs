//! A deleted tenant's keys are nowhere on the disk, so nothing of it opens, also for the root key.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::Builder,
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::{
    caller::Mandate,
    operations::{delete_tenant::delete_tenant, get_token::get_token},
    tenant::{Settings, Tenant},
};

use crate::{
    requests::{VISA, card, create},
    world::{Engine, TOKENS, World, plain},
};

/// Pieces of the wrapped keys of a tenant. Half a key left behind is found too.
struct Traces(Vec<Vec<u8>>);

const PIECE: usize = 16;

impl Traces {
    /// With a connection of its own, which is closed again: the store's readers stay out of this.
    fn of(file: &Path, tenant: &Tenant) -> Self {
        let connection = Connection::open(file).unwrap();
        let one = |sql: &str| -> Vec<u8> {
            connection.query_row(sql, [tenant.id.0.as_bytes()], |row| row.get(0)).unwrap()
        };
        let keys = [
            one("SELECT wrapped FROM tenant_keys WHERE tenant = ?"),
            one("SELECT lasting_key FROM tenants WHERE id = ?"),
        ];
        // What comes first says how it was sealed, and is the same in all of them.
        let pieces = keys.iter().flat_map(|it| it[PIECE..].chunks_exact(PIECE));
        Self(pieces.map(<[u8]>::to_vec).collect())
    }

    /// How many of them there are in the files of the database.
    fn found(&self, file: &Path) -> usize {
        let mut found = 0;
        for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm"] {
            let Ok(bytes) = fs::read(file.with_file_name(name)) else { continue };
            found += self.0.iter().filter(|it| bytes.windows(PIECE).any(|at| at == *it)).count();
        }
        found
    }
}

async fn delete(world: &World, tenant: &Arc<Tenant>) {
    delete_tenant(&world.vault, Mandate::of_operator(Arc::clone(tenant))).await.unwrap();
}

#[tokio::test]
async fn a_deleted_tenants_keys_are_nowhere() {
    let world = World::open(Engine::Sqlite).await;
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
    let sealed = world.vault.store.purge_tenants(world.vault.clock.now()).await.unwrap();
    assert!(sealed > 0);
    assert_eq!(world.vault.store.purge_tenants(world.vault.clock.now()).await.unwrap(), 0);
    assert!(get_token(&world.vault, &caller, &id).await.is_err());
    get_token(&world.vault, &neighbour, &kept).await.unwrap();
}

/// Rows move between pages as others come and go, and must leave nothing behind where they were.
#[tokio::test]
async fn nor_where_their_rows_once_were() {
    const TENANTS: usize = 48;
    let world = World::open(Engine::Sqlite).await;
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
        world.vault.store.purge_tenants(world.vault.clock.now()).await.unwrap();
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
        let world = World::open(Engine::Sqlite).await;
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
