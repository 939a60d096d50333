//! Whatever somebody else does to the trail is found, and nothing is found that nobody did.

use std::{fs, path::Path, sync::Arc, time::Duration};

use rusqlite::{Connection, types::Value};
use scrip_core::{
    audit::{
        KeptHead, Log,
        head_file::still_has,
        verify::{Fault, Verified, Verifier},
    },
    id::TenantId,
    operations::{logs::prune_logs::prune_logs, tokens::delete_token::delete_token},
    policy::{Caller, Settings, Transform},
    store::Store,
};
use scrip_seal::{AuditKey, Mac};
use scrip_store::sqlite::trail::walk_log;
use scrip_testing::{
    policy::{TOKENS, rule, ruled},
    requests::{VISA, card, create, get},
    vault_harness::{Engine, VaultHarness},
};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const FILES: [&str; 2] = ["scrip.db", "access.db"];
const TABLES: [&str; 3] = ["audit", "audit_heads", "audit_checkpoints"];

/// The files of a vault that was lived in, and what it takes to verify copies of them.
struct Trail {
    key: Arc<AuditKey>,
    tenants: [TenantId; 2],
    /// Kept apart at the end.
    kept: Vec<KeptHead>,
    files: [Vec<u8>; 2],
    /// As they were a while before.
    earlier: [Vec<u8>; 2],
    folder: TempDir,
}

async fn live(world: &VaultHarness, caller: &Caller) {
    let token = create(&world.vault, caller, card(VISA)).await.unwrap().token.id;
    get(&world.vault, caller, &token).await;
    delete_token(&world.vault, caller, &token).await.unwrap();
}

/// In as many steps as it takes; how many records went.
async fn prune(world: &VaultHarness) -> usize {
    let mut pruned = 0;
    for chain in prune_logs(&world.vault, &world.directory().await).await.unwrap() {
        while let some @ 1.. = world.vault.store.prune_chain(chain.clone()).await.unwrap() {
            pruned += some;
        }
    }
    pruned
}

async fn kept(store: &dyn Store) -> Vec<KeptHead> {
    let mut kept = Vec::new();
    for log in Log::ALL {
        let heads = store.list_heads(log).await.unwrap();
        kept.extend(heads.iter().map(|it| KeptHead::of(log, it)));
    }
    kept
}

/// The bytes of both files, while nobody writes.
fn bytes(folder: &Path) -> [Vec<u8>; 2] {
    FILES.map(|it| {
        let connection = Connection::open(folder.join(it)).unwrap();
        let cut = "PRAGMA wal_checkpoint(TRUNCATE)";
        // The store's own checkpointer may be at it.
        while connection.query_row(cut, [], |row| row.get::<_, i64>(0)).unwrap() != 0 {}
        fs::read(folder.join(it)).unwrap()
    })
}

pub(crate) fn verify(
    folder: &Path,
    key: &Arc<AuditKey>,
    living: &[TenantId],
    kept: &[KeptHead],
) -> Verified {
    let mut all = Log::ALL.map(|log| {
        let begin = |ends| Verifier::new(log, Arc::clone(key), ends, kept);
        walk_log(&folder.join("scrip.db"), log, u64::MAX, begin, |_, _| ()).unwrap().finish(living)
    });
    let [audit, access] = &mut all;
    audit.problems.append(&mut access.problems);
    let [audit, access] = all;
    Verified { records: audit.records + access.records, ..audit }
}

impl Trail {
    async fn open() -> Self {
        let world = VaultHarness::open(Engine::Sqlite).await;
        let (mut callers, mut tenants) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let tenant = world.tenant(Settings::default()).await;
            let rights = ruled([rule("/", Transform::Reveal, TOKENS)]);
            callers.push(world.caller(&tenant, rights).await);
            tenants.push(tenant.id);
        }
        for caller in &callers {
            live(&world, caller).await;
        }
        world.clock.advance(2 * DAY);
        for caller in &callers {
            live(&world, caller).await;
            live(&world, caller).await;
        }
        assert_eq!(prune(&world).await, 2 * 5);
        let earlier = bytes(world.file().parent().unwrap());
        for caller in &callers {
            live(&world, caller).await;
        }
        Self {
            key: Arc::clone(world.vault.audit.key().unwrap()),
            tenants: tenants.try_into().unwrap(),
            kept: kept(&*world.vault.store).await,
            files: bytes(world.file().parent().unwrap()),
            earlier,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn put(&self, files: &[Vec<u8>; 2]) {
        for (name, bytes) in FILES.iter().zip(files) {
            for end in ["-wal", "-shm"] {
                drop(fs::remove_file(self.folder.path().join(format!("{name}{end}"))));
            }
            fs::write(self.folder.path().join(name), bytes).unwrap();
        }
    }

    /// A connection to a fresh copy of a log; the other one is attached as `other`.
    fn copy(&self, log: Log) -> Connection {
        self.put(&self.files);
        let [audit, access] = FILES.map(|it| self.folder.path().join(it));
        let (file, other) = match log {
            Log::Audit => (audit, access),
            Log::Access => (access, audit),
        };
        let connection = Connection::open(file).unwrap();
        connection.execute("ATTACH ?1 AS other", [other.to_str().unwrap()]).unwrap();
        connection
    }

    fn verify(&self) -> Verified {
        verify(self.folder.path(), &self.key, &self.tenants, &self.kept)
    }

    /// Does this to a log, and what it finds then.
    fn after(&self, log: Log, sql: &str) -> Vec<Fault> {
        let connection = self.copy(log);
        let [one, two] = self.tenants.map(|it| format!("x'{}'", it.0.simple()));
        let sql = sql.replace("{one}", &one).replace("{two}", &two);
        connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        drop(connection);
        let mut faults: Vec<_> = self.verify().problems.iter().map(|it| it.fault).collect();
        faults.sort();
        faults.dedup();
        faults
    }
}

#[tokio::test]
async fn a_trail_that_nobody_touched_is_whole() {
    let trail = Trail::open().await;
    trail.put(&trail.files);
    let verified = trail.verify();
    assert_eq!(verified.problems, []);
    // Of each tenant: two creations of policy and two changes of a token were pruned of one log, and
    // a read of the other; three times two changes and one read are left.
    assert_eq!(verified.records, 2 * 3 * 3);
}

/// Another value of the same kind for every column of every row.
#[tokio::test]
async fn altering_any_column_of_any_row_is_found() {
    let trail = Trail::open().await;
    let mut altered = 0;
    for (log, table) in Log::ALL.into_iter().flat_map(|log| TABLES.map(|it| (log, it))) {
        let columns: Vec<(String, String)> = {
            let connection = trail.copy(log);
            let sql = format!("SELECT name, type FROM pragma_table_info('{table}')");
            let mut statement = connection.prepare(&sql).unwrap();
            let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            columns.map(Result::unwrap).collect()
        };
        assert!(columns.len() >= 5);
        for (column, kind) in columns {
            let others: &[&str] = match (&*column, &*kind) {
                ("retention_seconds", _) => &["1", "0"],
                ("actor", _) => &["zeroblob(16)", "NULL", "x'00'"],
                ("tenant", _) => &["zeroblob(16)", "x'00'"],
                (_, "INTEGER") => &["{c} + 1", "{c} - 1", "-{c}"],
                (_, "TEXT") => &["{c} || 'x'", "''", "upper({c}) || ' '"],
                (_, "BLOB") => &["zeroblob(32)", "x''", "substr({c}, 1, 31) || x'00'"],
                other => panic!("{other:?}"),
            };
            for other in others {
                altered +=
                    check_altered(&trail, log, table, &column, &other.replace("{c}", &column));
            }
        }
    }
    assert!(altered > 400, "{altered}");
}

/// One row after the other; how many could be altered so.
fn check_altered(trail: &Trail, log: Log, table: &str, column: &str, value: &str) -> usize {
    let rows = |it: &Connection| -> i64 {
        it.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let mut altered = 0;
    let count = rows(&trail.copy(log));
    for at in 0..count {
        let connection = trail.copy(log);
        let of = "SELECT tenant, n FROM {table} ORDER BY tenant, n LIMIT 1 OFFSET {at}";
        let of = of.replace("{table}", table).replace("{at}", &at.to_string());
        let sql = format!("UPDATE {table} SET {column} = {value} WHERE (tenant, n) = ({of})");
        let before = contents(&connection, table);
        // Another row may have the number.
        if connection.execute(&sql, []).is_err() || contents(&connection, table) == before {
            continue;
        }
        drop(connection);
        assert_ne!(trail.verify().problems, [], "{log:?} {sql}");
        altered += 1;
    }
    altered
}

fn contents(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// A statement, and what is found after it in the audit log and in the access log.
type Tampering = (&'static str, &'static [Fault], &'static [Fault]);

const LAST: &str = "(SELECT max(n) FROM audit WHERE tenant = {one} AND n < 1000)";
const FIRST: &str = "(SELECT min(n) FROM audit WHERE tenant = {one})";

const GONE: &[Fault] = &[Fault::Missing];
const CUT: &[Fault] = &[Fault::Truncated, Fault::RolledBack];
const BENT: &[Fault] = &[Fault::Altered, Fault::HeadAltered, Fault::RolledBack];
const ADDED: &[Fault] = &[Fault::Altered, Fault::Unexpected];
const MOVED: &[Fault] = &[Fault::Altered, Fault::Truncated, Fault::Unexpected, Fault::RolledBack];
const OTHER_CHECKPOINT: &[Fault] = &[Fault::Altered, Fault::CheckpointAltered];

#[rustfmt::skip]
const TAMPERINGS: &[Tampering] = &[
    ("DELETE FROM audit WHERE tenant = {one} AND n = {first}", GONE, GONE),
    ("DELETE FROM audit WHERE tenant = {one} AND n = {first} + 1", GONE, GONE),
    ("DELETE FROM audit WHERE tenant = {one} AND n = {last}", CUT, CUT),
    ("DELETE FROM audit WHERE tenant = {one} AND n > {first}", CUT, CUT),
    ("DELETE FROM audit WHERE tenant = {one}", CUT, CUT),
    ("DELETE FROM audit_heads WHERE tenant = {one}", &[Fault::HeadMissing, Fault::ChainMissing], &[Fault::HeadMissing]),
    ("DELETE FROM audit_checkpoints WHERE tenant = {one}", GONE, GONE),
    // The chain of a tenant, with all that knows of it.
    ("DELETE FROM audit WHERE tenant = {one}; DELETE FROM audit_heads WHERE tenant = {one}; \
      DELETE FROM audit_checkpoints WHERE tenant = {one}",
      &[Fault::ChainMissing, Fault::RolledBack], &[Fault::RolledBack]),
    // All records, and that there ever were any that were pruned.
    ("DELETE FROM audit WHERE tenant = {one}; DELETE FROM audit_checkpoints WHERE tenant = {one}", CUT, CUT),
    // The last two change places.
    ("UPDATE audit SET n = n + 1000 WHERE tenant = {one} AND n = {last} - 1; \
      UPDATE audit SET n = n - 1 WHERE tenant = {one} AND n = {last}; \
      UPDATE audit SET n = n - 999 WHERE n > 1000", BENT, BENT),
    // To another tenant, from the other log, from itself.
    ("UPDATE audit SET tenant = {two}, n = (SELECT max(n) + 1 FROM audit WHERE tenant = {two}) \
      WHERE tenant = {one} AND n = {last}", MOVED, MOVED),
    ("INSERT INTO main.audit SELECT tenant, (SELECT max(n) + 1 FROM main.audit WHERE tenant = {one}), at, actor_kind, \
      actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link FROM other.audit WHERE tenant = {one} LIMIT 1", ADDED, ADDED),
    ("INSERT INTO main.audit SELECT tenant, n + 1, at, actor_kind, actor, operation, entity, outcome, trace, address, \
      api_key, os_user, repeats, link FROM main.audit WHERE tenant = {one} ORDER BY n DESC LIMIT 1", ADDED, ADDED),
    ("UPDATE audit_checkpoints SET (n, link, at, mac) = \
      (SELECT n, link, at, mac FROM audit_checkpoints WHERE tenant = {two}) WHERE tenant = {one}",
      OTHER_CHECKPOINT, OTHER_CHECKPOINT),
    ("UPDATE audit_heads SET (n, at, link, mac) = \
      (SELECT n, at, link, mac FROM audit_heads WHERE tenant = {two}) WHERE tenant = {one}",
      &[Fault::HeadAltered], &[Fault::HeadAltered]),
    ("UPDATE audit_heads SET mac = (SELECT mac FROM other.audit_heads AS it WHERE it.tenant = audit_heads.tenant)",
      &[Fault::HeadAltered], &[Fault::HeadAltered]),
    ("UPDATE audit_checkpoints SET mac = (SELECT mac FROM other.audit_checkpoints AS it WHERE it.tenant = {one}) \
      WHERE tenant = {one}", &[Fault::CheckpointAltered], &[Fault::CheckpointAltered]),
];

#[tokio::test]
async fn removing_swapping_and_moving_is_found() {
    let trail = Trail::open().await;
    for (sql, audit, access) in TAMPERINGS {
        let sql = sql.replace("{last}", LAST).replace("{first}", FIRST);
        assert_eq!(trail.after(Log::Audit, &sql), *audit, "{sql}");
        assert_eq!(trail.after(Log::Access, &sql), *access, "{sql}");
    }
}

/// Every row of it was once as it is: only what was kept apart tells.
#[tokio::test]
async fn an_older_log_is_found_by_what_was_kept_apart() {
    let trail = Trail::open().await;
    let without = || verify(trail.folder.path(), &trail.key, &trail.tenants, &[]).problems;
    let faults = || trail.verify().problems.iter().map(|it| (it.log, it.fault)).collect::<Vec<_>>();
    trail.put(&trail.earlier);
    assert_eq!(without(), []);
    let all = Log::ALL.into_iter().flat_map(|it| [(it, Fault::RolledBack); 2]);
    assert_eq!(faults(), all.collect::<Vec<_>>());

    // One chain of one log: its last records, and the head that it had before them.
    let [audit, access] = FILES.map(|it| trail.folder.path().join(it).with_extension("earlier"));
    for (log, file, bytes) in
        [(Log::Audit, audit, &trail.earlier[0]), (Log::Access, access, &trail.earlier[1])]
    {
        let connection = trail.copy(log);
        fs::write(&file, bytes).unwrap();
        connection.execute("ATTACH ?1 AS earlier", [file.to_str().unwrap()]).unwrap();
        let one = format!("x'{}'", trail.tenants[0].0.simple());
        let sql = "DELETE FROM audit WHERE tenant = {one} AND n >
                (SELECT n FROM earlier.audit_heads WHERE tenant = {one});
            UPDATE audit_heads SET (n, at, link, mac) =
                (SELECT n, at, link, mac FROM earlier.audit_heads WHERE tenant = {one})
                WHERE tenant = {one}";
        connection.execute_batch(&sql.replace("{one}", &one)).unwrap();
        drop(connection);
        assert_eq!(without(), []);
        assert_eq!(faults(), [(log, Fault::RolledBack)]);
    }
}

/// Whoever removes records and lets the vault write over it.
#[tokio::test]
async fn what_follows_an_altered_head_is_not_made_ours() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    live(&world, &caller).await;
    let outside = Connection::open(world.file()).unwrap();
    let sql = "DELETE FROM audit WHERE n = (SELECT n FROM audit_heads);
        UPDATE audit_heads SET n = n - 1, link = (SELECT link FROM audit ORDER BY n DESC LIMIT 1)";
    outside.execute_batch(sql).unwrap();
    live(&world, &caller).await;
    live(&world, &caller).await;
    let folder = world.file().parent().unwrap().to_owned();
    let key = world.vault.audit.key().unwrap();
    let found = verify(&folder, key, &[tenant.id], &[]).problems;
    assert_eq!(found.iter().map(|it| it.fault).collect::<Vec<_>>(), [Fault::HeadAltered]);
}

/// A checkpoint over what was altered would hide it.
#[tokio::test]
async fn a_chain_that_was_altered_is_not_pruned() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    live(&world, &caller).await;
    world.clock.advance(2 * DAY);
    let chains = prune_logs(&world.vault, &world.directory().await).await.unwrap();
    assert_eq!(chains.len(), 2);
    let store = &world.vault.store;
    for (file, chain) in FILES.iter().zip(chains) {
        let outside = Connection::open(world.file().with_file_name(file)).unwrap();
        outside.execute_batch("UPDATE audit SET outcome = 'masked' WHERE n = 1").unwrap();
        assert!(store.prune_chain(chain.clone()).await.is_err());
        outside.execute_batch("UPDATE audit SET n = n + 9").unwrap();
        assert!(store.prune_chain(chain).await.is_err());
    }
}

/// A chain that goes on has what was its last record, or has pruned it.
#[tokio::test]
async fn a_chain_that_went_on_is_told_from_a_fork() {
    for engine in [Engine::Memory, Engine::Sqlite] {
        let world = VaultHarness::open(engine).await;
        let tenant = world.tenant(Settings::default()).await;
        let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
        live(&world, &caller).await;
        let (store, key) = (&*world.vault.store, world.vault.audit.key().unwrap());
        let then = kept(store).await;
        assert_eq!(then.len(), 2);
        live(&world, &caller).await;
        let fork = |it: &KeptHead| KeptHead { link: Mac([9; 32]), ..*it };
        for it in &then {
            assert!(still_has(store, key, it).await.unwrap());
            assert!(!still_has(store, key, &fork(it)).await.unwrap());
            assert!(!still_has(store, key, &KeptHead { n: 99, ..*it }).await.unwrap());
            assert_eq!(store.find_checkpoint(it.log, it.tenant).await.unwrap(), None);
        }
        let last = kept(store).await;
        world.clock.advance(2 * DAY);
        assert!(prune(&world).await > 0);
        for (it, last) in then.iter().zip(&last) {
            let made = store.find_checkpoint(it.log, it.tenant).await.unwrap().unwrap();
            assert_eq!((made.n, made.link), (last.n, last.link));
            assert!(still_has(store, key, it).await.unwrap());
            // The checkpoint knows its own record, and none before.
            assert!(still_has(store, key, last).await.unwrap());
            assert!(!still_has(store, key, &fork(last)).await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_checkpoint_of_somebody_else_is_none() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    live(&world, &caller).await;
    let (store, key) = (&*world.vault.store, world.vault.audit.key().unwrap());
    let then = kept(store).await;
    world.clock.advance(2 * DAY);
    prune(&world).await;
    for (file, it) in FILES.iter().zip(&then) {
        assert!(still_has(store, key, it).await.unwrap());
        let outside = Connection::open(world.file().with_file_name(file)).unwrap();
        outside.execute_batch("UPDATE audit_checkpoints SET n = n + 1").unwrap();
        assert!(!still_has(store, key, it).await.unwrap());
    }
}

#[tokio::test]
async fn a_trail_is_whole_while_it_is_written() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let folder = world.file().parent().unwrap().to_owned();
    let key = Arc::clone(world.vault.audit.key().unwrap());
    let verifying = tokio::task::spawn_blocking({
        let (folder, key, id) = (folder.clone(), Arc::clone(&key), tenant.id);
        move || (0..20).map(|_| verify(&folder, &key, &[id], &[]).problems.len()).sum::<usize>()
    });
    while !verifying.is_finished() {
        live(&world, &caller).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(verifying.await.unwrap(), 0);
    let kept = kept(&*world.vault.store).await;
    live(&world, &caller).await;
    assert_eq!(verify(&folder, &key, &[tenant.id], &kept).problems, []);
}

/// While it is read the log of the database cannot start over.
#[tokio::test]
async fn a_log_that_grows_too_long_ends_a_verification() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    live(&world, &caller).await;
    let key = world.vault.audit.key().unwrap();
    for (log, file) in Log::ALL.into_iter().zip(FILES) {
        let wal = world.file().with_file_name(file).with_extension("db-wal");
        let length = fs::metadata(wal).unwrap().len();
        let walk = |bytes_max| {
            let begin = |ends| Verifier::new(log, Arc::clone(key), ends, &[]);
            walk_log(&world.file(), log, bytes_max, begin, |_, _| ())
        };
        let refused = walk(length - 1).unwrap_err();
        assert!(format!("{refused:?}").contains("grown past the bound"), "{refused:?}");
        assert_eq!(walk(length).unwrap().finish(&[tenant.id]).problems, []);
    }
}
