//! The log files of a used vault, for tests that alter copies of them and verify the chains.

use std::{fs, path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::{
        LogKind, SavedHead,
        verify::{ChainFault, VerificationReport, Verifier},
    },
    operations::{logs::prune_logs::prune_logs, tokens::delete_token::delete_token},
    policy::Caller,
    store::Store,
    types::{Transform, id::TenantId},
};
use scrip_seal::AuditKey;
use scrip_store::sqlite::verify::verify_log;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create, get},
    vault_harness::{Engine, VaultHarness},
};
use tempfile::TempDir;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(crate) const FILES: [&str; 2] = ["scrip.db", "read_log.db"];

/// The files of a used vault, and the keys that verify copies of them.
pub(crate) struct LogFiles {
    pub(crate) key: Arc<AuditKey>,
    pub(crate) tenants: [TenantId; 2],
    /// Saved separately at the end.
    pub(crate) saved_heads: Vec<SavedHead>,
    pub(crate) files: [Vec<u8>; 2],
    /// An earlier state of the files.
    pub(crate) earlier_files: [Vec<u8>; 2],
    pub(crate) folder: TempDir,
}

pub(crate) async fn create_read_and_delete_token(harness: &VaultHarness, caller: &Caller) {
    let token = create(&harness.vault, caller, card(VISA)).await.unwrap().token.id;
    get(&harness.vault, caller, &token).await;
    delete_token(&harness.vault, caller, &token).await.unwrap();
}

/// Prunes until nothing is left to prune. Returns the number of deleted records.
pub(crate) async fn prune(harness: &VaultHarness) -> usize {
    let mut pruned = 0;
    for chain in prune_logs(&harness.vault, &harness.directory().await).await.unwrap() {
        while let some @ 1.. = harness.vault.store.prune_chain(chain.clone()).await.unwrap() {
            pruned += some;
        }
    }
    pruned
}

pub(crate) async fn list_saved_heads(store: &dyn Store) -> Vec<SavedHead> {
    let mut saved = Vec::new();
    for log in LogKind::ALL {
        let heads = store.list_heads(log).await.unwrap();
        saved.extend(heads.iter().map(|it| SavedHead::from_head(log, it)));
    }
    saved
}

/// The bytes of both files, while no process writes.
fn read_files(folder: &Path) -> [Vec<u8>; 2] {
    FILES.map(|it| {
        let connection = Connection::open(folder.join(it)).unwrap();
        let cut = "PRAGMA wal_checkpoint(TRUNCATE)";
        // The store's own checkpointer may be running.
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
    pub(crate) async fn open() -> Self {
        let harness = VaultHarness::open(Engine::Sqlite).await;
        let (mut callers, mut tenants) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let tenant = harness.default_tenant().await;
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

    pub(crate) fn write_files(&self, files: &[Vec<u8>; 2]) {
        for (name, bytes) in FILES.iter().zip(files) {
            for end in ["-wal", "-shm"] {
                drop(fs::remove_file(self.folder.path().join(format!("{name}{end}"))));
            }
            fs::write(self.folder.path().join(name), bytes).unwrap();
        }
    }

    /// A connection to a new copy of a log; the other log is attached as `other`.
    pub(crate) fn open_copy(&self, log: LogKind) -> Connection {
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

    pub(crate) fn verify(&self) -> VerificationReport {
        verify_logs(self.folder.path(), &self.key, &self.tenants, &self.saved_heads)
    }

    /// Runs the statement on a log and returns the faults that verification finds.
    pub(crate) fn faults_after(&self, log: LogKind, sql: &str) -> Vec<ChainFault> {
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
