//! Verification detects every manipulation of a log, and reports no fault without one.

use std::{fs, sync::Arc};

use rusqlite::{Connection, types::Value};
use scrip_core::{
    audit::{
        LogKind, SavedHead,
        verify::{ChainFault, Verifier},
    },
    log_tasks::head_file::chain_contains,
    operations::logs::prune_logs::prune_logs,
    policy::{Caller, Tenant},
};
use scrip_seal::Mac;
use scrip_store::sqlite::verify::verify_log;
use scrip_testing::{
    policy::TOKENS,
    vault_harness::{Engine, VaultHarness},
};

use crate::audit::log_files::{
    DAY, FILES, LogFiles, create_read_and_delete_token, list_saved_heads, prune, verify_logs,
};

const TABLES: [&str; 3] = ["log_records", "chain_heads", "chain_checkpoints"];

#[tokio::test]
async fn untouched_logs_verify_without_faults() {
    let trail = LogFiles::open().await;
    trail.write_files(&trail.files);
    let verified = trail.verify();
    assert_eq!(verified.problems, []);
    // Per tenant, pruning deleted two policy records and two token records from the audit log, and
    // one record from the read log. Three times two changes and one read remain.
    assert_eq!(verified.records, 2 * 3 * 3);
}

/// Replaces every column of every row with another value of the same type.
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

/// Alters one row after the other. Returns the number of rows that could be altered.
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
        let of =
            "SELECT tenant, sequence FROM {table} ORDER BY tenant, sequence LIMIT 1 OFFSET {at}";
        let of = of.replace("{table}", table).replace("{at}", &at.to_string());
        let sql =
            format!("UPDATE {table} SET {column} = {value} WHERE (tenant, sequence) = ({of})");
        let before = contents(&connection, table);
        // The alteration is impossible if another row has the number.
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

/// A statement, and the faults after it in the audit log and in the read log.
type Tampering = (&'static str, &'static [ChainFault], &'static [ChainFault]);

const LAST: &str =
    "(SELECT max(sequence) FROM log_records WHERE tenant = {one} AND sequence < 1000)";
const FIRST: &str = "(SELECT min(sequence) FROM log_records WHERE tenant = {one})";

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
    ("DELETE FROM log_records WHERE tenant = {one} AND sequence = {first}", MISSING, MISSING),
    ("DELETE FROM log_records WHERE tenant = {one} AND sequence = {first} + 1", MISSING, MISSING),
    ("DELETE FROM log_records WHERE tenant = {one} AND sequence = {last}", TRUNCATED, TRUNCATED),
    ("DELETE FROM log_records WHERE tenant = {one} AND sequence > {first}", TRUNCATED, TRUNCATED),
    ("DELETE FROM log_records WHERE tenant = {one}", TRUNCATED, TRUNCATED),
    ("DELETE FROM chain_heads WHERE tenant = {one}", &[ChainFault::HeadMissing, ChainFault::ChainMissing], &[ChainFault::HeadMissing]),
    ("DELETE FROM chain_checkpoints WHERE tenant = {one}", MISSING, MISSING),
    // The chain of a tenant, with its head and checkpoint.
    ("DELETE FROM log_records WHERE tenant = {one}; DELETE FROM chain_heads WHERE tenant = {one}; \
      DELETE FROM chain_checkpoints WHERE tenant = {one}",
      &[ChainFault::ChainMissing, ChainFault::RolledBack], &[ChainFault::RolledBack]),
    // All records, and the checkpoint that proves earlier pruning.
    ("DELETE FROM log_records WHERE tenant = {one}; DELETE FROM chain_checkpoints WHERE tenant = {one}", TRUNCATED, TRUNCATED),
    // Swaps the last two records.
    ("UPDATE log_records SET sequence = sequence + 1000 WHERE tenant = {one} AND sequence = {last} - 1; \
      UPDATE log_records SET sequence = sequence - 1 WHERE tenant = {one} AND sequence = {last}; \
      UPDATE log_records SET sequence = sequence - 999 WHERE sequence > 1000", REORDERED, REORDERED),
    // Moves records to another tenant, from the other log, and within the chain.
    ("UPDATE log_records SET tenant = {two}, sequence = (SELECT max(sequence) + 1 FROM log_records WHERE tenant = {two}) \
      WHERE tenant = {one} AND sequence = {last}", MOVED, MOVED),
    ("INSERT INTO main.log_records SELECT tenant, (SELECT max(sequence) + 1 FROM main.log_records WHERE tenant = {one}), at, actor_kind, \
      actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail FROM other.log_records WHERE tenant = {one} LIMIT 1", ADDED, ADDED),
    ("INSERT INTO main.log_records SELECT tenant, sequence + 1, at, actor_kind, actor, operation, entity, outcome, trace, address, \
      api_key, os_user, repeats, link, detail FROM main.log_records WHERE tenant = {one} ORDER BY sequence DESC LIMIT 1", ADDED, ADDED),
    ("UPDATE chain_checkpoints SET (sequence, link, at, mac) = \
      (SELECT sequence, link, at, mac FROM chain_checkpoints WHERE tenant = {two}) WHERE tenant = {one}",
      OTHER_CHECKPOINT, OTHER_CHECKPOINT),
    ("UPDATE chain_heads SET (sequence, at, link, mac) = \
      (SELECT sequence, at, link, mac FROM chain_heads WHERE tenant = {two}) WHERE tenant = {one}",
      &[ChainFault::HeadAltered], &[ChainFault::HeadAltered]),
    ("UPDATE chain_heads SET mac = (SELECT mac FROM other.chain_heads AS it WHERE it.tenant = chain_heads.tenant)",
      &[ChainFault::HeadAltered], &[ChainFault::HeadAltered]),
    ("UPDATE chain_checkpoints SET mac = (SELECT mac FROM other.chain_checkpoints AS it WHERE it.tenant = {one}) \
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

/// Every row is authentic, so only the saved heads reveal the rollback.
#[tokio::test]
async fn rollback_of_a_log_is_detected_by_saved_heads() {
    let trail = LogFiles::open().await;
    let without = || verify_logs(trail.folder.path(), &trail.key, &trail.tenants, &[]).problems;
    let faults = || trail.verify().problems.iter().map(|it| (it.log, it.fault)).collect::<Vec<_>>();
    trail.write_files(&trail.earlier_files);
    assert_eq!(without(), []);
    let all = LogKind::ALL.into_iter().flat_map(|it| [(it, ChainFault::RolledBack); 2]);
    assert_eq!(faults(), all.collect::<Vec<_>>());

    // One chain of one log: removes its last records and restores an earlier head.
    let [audit, access] = FILES.map(|it| trail.folder.path().join(it).with_extension("earlier"));
    for (log, file, bytes) in [
        (LogKind::Audit, audit, &trail.earlier_files[0]),
        (LogKind::Read, access, &trail.earlier_files[1]),
    ] {
        let connection = trail.open_copy(log);
        fs::write(&file, bytes).unwrap();
        connection.execute("ATTACH ?1 AS earlier", [file.to_str().unwrap()]).unwrap();
        let one = format!("x'{}'", trail.tenants[0].0.simple());
        let sql = "DELETE FROM log_records WHERE tenant = {one} AND sequence >
                (SELECT sequence FROM earlier.chain_heads WHERE tenant = {one});
            UPDATE chain_heads SET (sequence, at, link, mac) =
                (SELECT sequence, at, link, mac FROM earlier.chain_heads WHERE tenant = {one})
                WHERE tenant = {one}";
        connection.execute_batch(&sql.replace("{one}", &one)).unwrap();
        drop(connection);
        assert_eq!(without(), []);
        assert_eq!(faults(), [(log, ChainFault::RolledBack)]);
    }
}

/// Opens a vault with records of one token in both logs.
async fn open_with_records(engine: Engine) -> (VaultHarness, Arc<Tenant>, Caller) {
    let harness = VaultHarness::open(engine).await;
    let (tenant, caller) = harness.tenant_with_caller(TOKENS).await;
    create_read_and_delete_token(&harness, &caller).await;
    (harness, tenant, caller)
}

/// Removes records and lets the vault continue the chain.
#[tokio::test]
async fn records_written_after_an_altered_head_do_not_restore_a_valid_head() {
    let (harness, tenant, caller) = open_with_records(Engine::Sqlite).await;
    let attacker = Connection::open(harness.file()).unwrap();
    let sql = "DELETE FROM log_records WHERE sequence = (SELECT sequence FROM chain_heads);
        UPDATE chain_heads SET sequence = sequence - 1, link = (SELECT link FROM log_records ORDER BY sequence DESC LIMIT 1)";
    attacker.execute_batch(sql).unwrap();
    create_read_and_delete_token(&harness, &caller).await;
    create_read_and_delete_token(&harness, &caller).await;
    let folder = harness.file().parent().unwrap().to_owned();
    let key = harness.vault.audit_trail.key().unwrap();
    let found = verify_logs(&folder, key, &[tenant.id], &[]).problems;
    assert_eq!(found.iter().map(|it| it.fault).collect::<Vec<_>>(), [ChainFault::HeadAltered]);
}

/// A checkpoint over altered records would hide the alteration.
#[tokio::test]
async fn altered_chain_is_not_pruned() {
    let (harness, _, _) = open_with_records(Engine::Sqlite).await;
    harness.clock.advance(2 * DAY);
    let chains = prune_logs(&harness.vault, &harness.directory().await).await.unwrap();
    assert_eq!(chains.len(), 2);
    let store = &harness.vault.store;
    for (file, chain) in FILES.iter().zip(chains) {
        let attacker = Connection::open(harness.file().with_file_name(file)).unwrap();
        attacker
            .execute_batch("UPDATE log_records SET outcome = 'masked' WHERE sequence = 1")
            .unwrap();
        assert!(store.prune_chain(chain.clone()).await.is_err());
        attacker.execute_batch("UPDATE log_records SET sequence = sequence + 9").unwrap();
        assert!(store.prune_chain(chain).await.is_err());
    }
}

/// A chain that advanced still contains its former last record, or has pruned it.
#[tokio::test]
async fn chain_that_advanced_is_distinguished_from_a_fork() {
    for engine in [Engine::Memory, Engine::Sqlite] {
        let (harness, _, caller) = open_with_records(engine).await;
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
            // The checkpoint contains the link of its own record only.
            assert!(chain_contains(store, key, last).await.unwrap());
            assert!(!chain_contains(store, key, &fork(last)).await.unwrap());
        }
    }
}

#[tokio::test]
async fn altered_checkpoint_does_not_prove_a_saved_head() {
    let (harness, _, _) = open_with_records(Engine::Sqlite).await;
    let (store, key) = (&*harness.vault.store, harness.vault.audit_trail.key().unwrap());
    let then = list_saved_heads(store).await;
    harness.clock.advance(2 * DAY);
    prune(&harness).await;
    for (file, it) in FILES.iter().zip(&then) {
        assert!(chain_contains(store, key, it).await.unwrap());
        let attacker = Connection::open(harness.file().with_file_name(file)).unwrap();
        attacker.execute_batch("UPDATE chain_checkpoints SET sequence = sequence + 1").unwrap();
        assert!(!chain_contains(store, key, it).await.unwrap());
    }
}

#[tokio::test]
async fn logs_verify_while_they_are_written() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let (tenant, caller) = harness.tenant_with_caller(TOKENS).await;
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
    let saved = list_saved_heads(&*harness.vault.store).await;
    create_read_and_delete_token(&harness, &caller).await;
    assert_eq!(verify_logs(&folder, &key, &[tenant.id], &saved).problems, []);
}

/// The WAL cannot restart during verification.
#[tokio::test]
async fn verification_fails_when_the_wal_exceeds_its_bound() {
    let (harness, tenant, _) = open_with_records(Engine::Sqlite).await;
    let key = harness.vault.audit_trail.key().unwrap();
    for (log, file) in LogKind::ALL.into_iter().zip(FILES) {
        let wal = harness.file().with_file_name(file).with_extension("db-wal");
        let length = fs::metadata(wal).unwrap().len();
        let walk = |bytes_max| {
            let begin = |ends| Verifier::new(log, Arc::clone(key), ends, &[]);
            verify_log(&harness.file(), log, bytes_max, begin, |_, _| ())
        };
        let rejected = walk(length - 1).unwrap_err();
        assert!(format!("{rejected:?}").contains("exceeded its size limit"), "{rejected:?}");
        assert_eq!(walk(length).unwrap().finish(&[tenant.id]).problems, []);
    }
}
