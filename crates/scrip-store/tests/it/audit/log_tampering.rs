//! Whatever somebody else does to the trail is found, and nothing is found that nobody did.

use std::{fs, path::Path, sync::Arc, time::Duration};

use rusqlite::{Connection, types::Value};
use scrip_core::{
    audit::{
        LogKind, SavedHead,
        head_file::chain_contains,
        verify::{ChainFault, VerificationReport, Verifier},
    },
    id::TenantId,
    operations::{logs::prune_logs::prune_logs, tokens::delete_token::delete_token},
    policy::{Caller, TenantSettings, Transform},
    store::Store,
};
use scrip_seal::{AuditKey, Mac};
use scrip_store::sqlite::verify::verify_log;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create, get},
    vault_harness::{Engine, VaultHarness},
};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const FILES: [&str; 2] = ["scrip.db", "access.db"];
const TABLES: [&str; 3] = ["audit", "audit_heads", "audit_checkpoints"];

/// The files of a vault that was lived in, and what it takes to verify copies of them.
struct LogFiles {
    key: Arc<AuditKey>,
    tenants: [TenantId; 2],
    /// Kept apart at the end.
    saved_heads: Vec<SavedHead>,
    files: [Vec<u8>; 2],
    /// As they were a while before.
    earlier_files: [Vec<u8>; 2],
    folder: TempDir,
}

async fn create_read_and_delete_token(harness: &VaultHarness, caller: &Caller) {
    let token = create(&harness.vault, caller, card(VISA)).await.unwrap().token.id;
    get(&harness.vault, caller, &token).await;
    delete_token(&harness.vault, caller, &token).await.unwrap();
}

/// In as many steps as it takes; how many records went.
async fn prune(harness: &VaultHarness) -> usize {
    let mut pruned = 0;
    for chain in prune_logs(&harness.vault, &harness.directory().await).await.unwrap() {
        while let some @ 1.. = harness.vault.store.prune_chain(chain.clone()).await.unwrap() {
            pruned += some;
        }
    }
    pruned
}

async fn list_saved_heads(store: &dyn Store) -> Vec<SavedHead> {
    let mut kept = Vec::new();
    for log in LogKind::ALL {
        let heads = store.list_heads(log).await.unwrap();
        kept.extend(heads.iter().map(|it| SavedHead::from_head(log, it)));
    }
    kept
}

/// The bytes of both files, while nobody writes.
fn read_files(folder: &Path) -> [Vec<u8>; 2] {
    FILES.map(|it| {
        let connection = Connection::open(folder.join(it)).unwrap();
        let cut = "PRAGMA wal_checkpoint(TRUNCATE)";
        // The store's own checkpointer may be at it.
        while connection.query_row(cut, [], |row| row.get::<_, i64>(0)).unwrap() != 0 {}
        fs::read(folder.join(it)).unwrap()
    })
}

pub(crate) fn verify_logs(
    folder: &Path,
    key: &Arc<AuditKey>,
    existing_tenants: &[TenantId],
    saved_heads: &[SavedHead],
) -> VerificationReport {
    let mut all = LogKind::ALL.map(|log| {
        let begin = |ends| Verifier::new(log, Arc::clone(key), ends, saved_heads);
        verify_log(&folder.join("scrip.db"), log, u64::MAX, begin, |_, _| ())
            .unwrap()
            .finish(existing_tenants)
    });
    let [audit, access] = &mut all;
    audit.problems.append(&mut access.problems);
    let [audit, access] = all;
    VerificationReport { records: audit.records + access.records, ..audit }
}

impl LogFiles {
    async fn open() -> Self {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let (mut callers, mut tenants) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let tenant = harness.tenant(TenantSettings::default()).await;
            let rights = access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]);
            callers.push(harness.caller(&tenant, rights).await);
            tenants.push(tenant.id);
        }
        for caller in &callers {
            create_read_and_delete_token(&harness, caller).await;
        }
        harness.clock.advance(2 * DAY);
        for caller in &callers {
            create_read_and_delete_token(&harness, caller).await;
            create_read_and_delete_token(&harness, caller).await;
        }
        assert_eq!(prune(&harness).await, 2 * 5);
        let earlier = read_files(harness.file().parent().unwrap());
        for caller in &callers {
            create_read_and_delete_token(&harness, caller).await;
        }
        Self {
            key: Arc::clone(harness.vault.audit_trail.key().unwrap()),
            tenants: tenants.try_into().unwrap(),
            saved_heads: list_saved_heads(&*harness.vault.store).await,
            files: read_files(harness.file().parent().unwrap()),
            earlier_files: earlier,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn write_files(&self, files: &[Vec<u8>; 2]) {
        for (name, bytes) in FILES.iter().zip(files) {
            for end in ["-wal", "-shm"] {
                drop(fs::remove_file(self.folder.path().join(format!("{name}{end}"))));
            }
            fs::write(self.folder.path().join(name), bytes).unwrap();
        }
    }

    /// A connection to a fresh copy of a log; the other one is attached as `other`.
    fn open_copy(&self, log: LogKind) -> Connection {
        self.write_files(&self.files);
        let [audit, access] = FILES.map(|it| self.folder.path().join(it));
        let (file, other) = match log {
            LogKind::Audit => (audit, access),
            LogKind::Read => (access, audit),
        };
        let connection = Connection::open(file).unwrap();
        connection.execute("ATTACH ?1 AS other", [other.to_str().unwrap()]).unwrap();
        connection
    }

    fn verify(&self) -> VerificationReport {
        verify_logs(self.folder.path(), &self.key, &self.tenants, &self.saved_heads)
    }

    /// Does this to a log, and what it finds then.
    fn faults_after(&self, log: LogKind, sql: &str) -> Vec<ChainFault> {
        let connection = self.open_copy(log);
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
async fn untouched_logs_verify_without_faults() {
    let trail = LogFiles::open().await;
    trail.write_files(&trail.files);
    let verified = trail.verify();
    assert_eq!(verified.problems, []);
    // Of each tenant: two creations of policy and two changes of a token were pruned of one log, and
    // a read of the other; three times two changes and one read are left.
    assert_eq!(verified.records, 2 * 3 * 3);
}

/// Another value of the same kind for every column of every row.
#[tokio::test]
async fn altering_any_column_of_any_log_row_is_detected() {
    let trail = LogFiles::open().await;
    let mut altered = 0;
    for (log, table) in LogKind::ALL.into_iter().flat_map(|log| TABLES.map(|it| (log, it))) {
        let columns: Vec<(String, String)> = {
            let connection = trail.open_copy(log);
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
                altered += check_altered_rows_are_detected(
                    &trail,
                    log,
                    table,
                    &column,
                    &other.replace("{c}", &column),
                );
            }
        }
    }
    assert!(altered > 400, "{altered}");
}

/// One row after the other; how many could be altered so.
fn check_altered_rows_are_detected(
    log_files: &LogFiles,
    log: LogKind,
    table: &str,
    column: &str,
    value: &str,
) -> usize {
    let rows = |it: &Connection| -> i64 {
        it.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let mut altered = 0;
    let count = rows(&log_files.open_copy(log));
    for at in 0..count {
        let connection = log_files.open_copy(log);
        let of = "SELECT tenant, n FROM {table} ORDER BY tenant, n LIMIT 1 OFFSET {at}";
        let of = of.replace("{table}", table).replace("{at}", &at.to_string());
        let sql = format!("UPDATE {table} SET {column} = {value} WHERE (tenant, n) = ({of})");
        let before = contents(&connection, table);
        // Another row may have the number.
        if connection.execute(&sql, []).is_err() || contents(&connection, table) == before {
            continue;
        }
        drop(connection);
        assert_ne!(log_files.verify().problems, [], "{log:?} {sql}");
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
type Tampering = (&'static str, &'static [ChainFault], &'static [ChainFault]);

const LAST: &str = "(SELECT max(n) FROM audit WHERE tenant = {one} AND n < 1000)";
const FIRST: &str = "(SELECT min(n) FROM audit WHERE tenant = {one})";

const MISSING: &[ChainFault] = &[ChainFault::Missing];
const TRUNCATED: &[ChainFault] = &[ChainFault::Truncated, ChainFault::RolledBack];
const REORDERED: &[ChainFault] =
    &[ChainFault::Altered, ChainFault::HeadAltered, ChainFault::RolledBack];
const ADDED: &[ChainFault] = &[ChainFault::Altered, ChainFault::Unexpected];
const MOVED: &[ChainFault] =
    &[ChainFault::Altered, ChainFault::Truncated, ChainFault::Unexpected, ChainFault::RolledBack];
const OTHER_CHECKPOINT: &[ChainFault] = &[ChainFault::Altered, ChainFault::CheckpointAltered];

#[rustfmt::skip]
const TAMPERINGS: &[Tampering] = &[
    ("DELETE FROM audit WHERE tenant = {one} AND n = {first}", MISSING, MISSING),
    ("DELETE FROM audit WHERE tenant = {one} AND n = {first} + 1", MISSING, MISSING),
    ("DELETE FROM audit WHERE tenant = {one} AND n = {last}", TRUNCATED, TRUNCATED),
    ("DELETE FROM audit WHERE tenant = {one} AND n > {first}", TRUNCATED, TRUNCATED),
    ("DELETE FROM audit WHERE tenant = {one}", TRUNCATED, TRUNCATED),
    ("DELETE FROM audit_heads WHERE tenant = {one}", &[ChainFault::HeadMissing, ChainFault::ChainMissing], &[ChainFault::HeadMissing]),
    ("DELETE FROM audit_checkpoints WHERE tenant = {one}", MISSING, MISSING),
    // The chain of a tenant, with all that knows of it.
    ("DELETE FROM audit WHERE tenant = {one}; DELETE FROM audit_heads WHERE tenant = {one}; \
      DELETE FROM audit_checkpoints WHERE tenant = {one}",
      &[ChainFault::ChainMissing, ChainFault::RolledBack], &[ChainFault::RolledBack]),
    // All records, and that there ever were any that were pruned.
    ("DELETE FROM audit WHERE tenant = {one}; DELETE FROM audit_checkpoints WHERE tenant = {one}", TRUNCATED, TRUNCATED),
    // The last two change places.
    ("UPDATE audit SET n = n + 1000 WHERE tenant = {one} AND n = {last} - 1; \
      UPDATE audit SET n = n - 1 WHERE tenant = {one} AND n = {last}; \
      UPDATE audit SET n = n - 999 WHERE n > 1000", REORDERED, REORDERED),
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
      &[ChainFault::HeadAltered], &[ChainFault::HeadAltered]),
    ("UPDATE audit_heads SET mac = (SELECT mac FROM other.audit_heads AS it WHERE it.tenant = audit_heads.tenant)",
      &[ChainFault::HeadAltered], &[ChainFault::HeadAltered]),
    ("UPDATE audit_checkpoints SET mac = (SELECT mac FROM other.audit_checkpoints AS it WHERE it.tenant = {one}) \
      WHERE tenant = {one}", &[ChainFault::CheckpointAltered], &[ChainFault::CheckpointAltered]),
];

#[tokio::test]
async fn removing_swapping_and_moving_log_rows_is_detected() {
    let trail = LogFiles::open().await;
    for (sql, audit, access) in TAMPERINGS {
        let sql = sql.replace("{last}", LAST).replace("{first}", FIRST);
        assert_eq!(trail.faults_after(LogKind::Audit, &sql), *audit, "{sql}");
        assert_eq!(trail.faults_after(LogKind::Read, &sql), *access, "{sql}");
    }
}

/// Every row of it was once as it is: only what was kept apart tells.
#[tokio::test]
async fn rollback_of_a_log_is_detected_by_saved_heads() {
    let trail = LogFiles::open().await;
    let without = || verify_logs(trail.folder.path(), &trail.key, &trail.tenants, &[]).problems;
    let faults = || trail.verify().problems.iter().map(|it| (it.log, it.fault)).collect::<Vec<_>>();
    trail.write_files(&trail.earlier_files);
    assert_eq!(without(), []);
    let all = LogKind::ALL.into_iter().flat_map(|it| [(it, ChainFault::RolledBack); 2]);
    assert_eq!(faults(), all.collect::<Vec<_>>());

    // One chain of one log: its last records, and the head that it had before them.
    let [audit, access] = FILES.map(|it| trail.folder.path().join(it).with_extension("earlier"));
    for (log, file, bytes) in [
        (LogKind::Audit, audit, &trail.earlier_files[0]),
        (LogKind::Read, access, &trail.earlier_files[1]),
    ] {
        let connection = trail.open_copy(log);
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
        assert_eq!(faults(), [(log, ChainFault::RolledBack)]);
    }
}

/// Whoever removes records and lets the vault write over it.
#[tokio::test]
async fn records_written_after_an_altered_head_do_not_restore_a_valid_head() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    create_read_and_delete_token(&harness, &caller).await;
    let attacker = Connection::open(harness.file()).unwrap();
    let sql = "DELETE FROM audit WHERE n = (SELECT n FROM audit_heads);
        UPDATE audit_heads SET n = n - 1, link = (SELECT link FROM audit ORDER BY n DESC LIMIT 1)";
    attacker.execute_batch(sql).unwrap();
    create_read_and_delete_token(&harness, &caller).await;
    create_read_and_delete_token(&harness, &caller).await;
    let folder = harness.file().parent().unwrap().to_owned();
    let key = harness.vault.audit_trail.key().unwrap();
    let found = verify_logs(&folder, key, &[tenant.id], &[]).problems;
    assert_eq!(found.iter().map(|it| it.fault).collect::<Vec<_>>(), [ChainFault::HeadAltered]);
}

/// A checkpoint over what was altered would hide it.
#[tokio::test]
async fn altered_chain_is_not_pruned() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    create_read_and_delete_token(&harness, &caller).await;
    harness.clock.advance(2 * DAY);
    let chains = prune_logs(&harness.vault, &harness.directory().await).await.unwrap();
    assert_eq!(chains.len(), 2);
    let store = &harness.vault.store;
    for (file, chain) in FILES.iter().zip(chains) {
        let attacker = Connection::open(harness.file().with_file_name(file)).unwrap();
        attacker.execute_batch("UPDATE audit SET outcome = 'masked' WHERE n = 1").unwrap();
        assert!(store.prune_chain(chain.clone()).await.is_err());
        attacker.execute_batch("UPDATE audit SET n = n + 9").unwrap();
        assert!(store.prune_chain(chain).await.is_err());
    }
}

/// A chain that goes on has what was its last record, or has pruned it.
#[tokio::test]
async fn chain_that_advanced_is_distinguished_from_a_fork() {
    for engine in [Engine::Memory, Engine::Sqlite] {
        let harness = VaultHarness::open(engine).await;
        let tenant = harness.tenant(TenantSettings::default()).await;
        let caller = harness
            .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
            .await;
        create_read_and_delete_token(&harness, &caller).await;
        let (store, key) = (&*harness.vault.store, harness.vault.audit_trail.key().unwrap());
        let then = list_saved_heads(store).await;
        assert_eq!(then.len(), 2);
        create_read_and_delete_token(&harness, &caller).await;
        let fork = |it: &SavedHead| SavedHead { link: Mac([9; 32]), ..*it };
        for it in &then {
            assert!(chain_contains(store, key, it).await.unwrap());
            assert!(!chain_contains(store, key, &fork(it)).await.unwrap());
            assert!(!chain_contains(store, key, &SavedHead { sequence: 99, ..*it }).await.unwrap());
            assert_eq!(store.find_checkpoint(it.log, it.tenant).await.unwrap(), None);
        }
        let last = list_saved_heads(store).await;
        harness.clock.advance(2 * DAY);
        assert!(prune(&harness).await > 0);
        for (it, last) in then.iter().zip(&last) {
            let created = store.find_checkpoint(it.log, it.tenant).await.unwrap().unwrap();
            assert_eq!((created.sequence, created.link), (last.sequence, last.link));
            assert!(chain_contains(store, key, it).await.unwrap());
            // The checkpoint knows its own record, and none before.
            assert!(chain_contains(store, key, last).await.unwrap());
            assert!(!chain_contains(store, key, &fork(last)).await.unwrap());
        }
    }
}

#[tokio::test]
async fn altered_checkpoint_does_not_prove_a_saved_head() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    create_read_and_delete_token(&harness, &caller).await;
    let (store, key) = (&*harness.vault.store, harness.vault.audit_trail.key().unwrap());
    let then = list_saved_heads(store).await;
    harness.clock.advance(2 * DAY);
    prune(&harness).await;
    for (file, it) in FILES.iter().zip(&then) {
        assert!(chain_contains(store, key, it).await.unwrap());
        let attacker = Connection::open(harness.file().with_file_name(file)).unwrap();
        attacker.execute_batch("UPDATE audit_checkpoints SET n = n + 1").unwrap();
        assert!(!chain_contains(store, key, it).await.unwrap());
    }
}

#[tokio::test]
async fn logs_verify_while_they_are_written() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let folder = harness.file().parent().unwrap().to_owned();
    let key = Arc::clone(harness.vault.audit_trail.key().unwrap());
    let verifying = tokio::task::spawn_blocking({
        let (folder, key, id) = (folder.clone(), Arc::clone(&key), tenant.id);
        move || {
            (0..20).map(|_| verify_logs(&folder, &key, &[id], &[]).problems.len()).sum::<usize>()
        }
    });
    while !verifying.is_finished() {
        create_read_and_delete_token(&harness, &caller).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(verifying.await.unwrap(), 0);
    let kept = list_saved_heads(&*harness.vault.store).await;
    create_read_and_delete_token(&harness, &caller).await;
    assert_eq!(verify_logs(&folder, &key, &[tenant.id], &kept).problems, []);
}

/// While it is read the log of the database cannot start over.
#[tokio::test]
async fn verification_fails_when_the_wal_exceeds_its_bound() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    create_read_and_delete_token(&harness, &caller).await;
    let key = harness.vault.audit_trail.key().unwrap();
    for (log, file) in LogKind::ALL.into_iter().zip(FILES) {
        let wal = harness.file().with_file_name(file).with_extension("db-wal");
        let length = fs::metadata(wal).unwrap().len();
        let walk = |bytes_max| {
            let begin = |ends| Verifier::new(log, Arc::clone(key), ends, &[]);
            verify_log(&harness.file(), log, bytes_max, begin, |_, _| ())
        };
        let rejected = walk(length - 1).unwrap_err();
        assert!(format!("{rejected:?}").contains("grown past the bound"), "{rejected:?}");
        assert_eq!(walk(length).unwrap().finish(&[tenant.id]).problems, []);
    }
}
