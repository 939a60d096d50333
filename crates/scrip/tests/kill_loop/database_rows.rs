//! Checks of the database file itself, without a server.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use rusqlite::{Connection, OpenFlags};

use crate::{DurabilityViolation, RunReport, token_histories::TokenHistory};

/// Checks that there is exactly one row for every existing token, and one record for every token
/// ever created.
pub(crate) fn check_rows(file: &Path, histories: &[TokenHistory], report: &mut RunReport) {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.expect("open the database");
    let integrity: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("run the integrity check");
    if integrity != "ok" {
        report.add_violation(DurabilityViolation::DatabaseCorrupt);
    }
    let record_count: i64 = database
        .query_row("SELECT count(*) FROM log_records WHERE operation = 'create_token'", [], |row| {
            row.get(0)
        })
        .expect("count the audit records");
    if usize::try_from(record_count) != Ok(histories.len()) {
        report.add_violation(DurabilityViolation::CreateNotRecorded);
    }

    let miscount_query = "SELECT EXISTS (
        SELECT tenant, type, count FROM usage_types WHERE count > 0
        EXCEPT SELECT tenant, type, count(*) FROM tokens GROUP BY tenant, type
    ) OR (SELECT coalesce(sum(count), 0) FROM usage_types) <> (SELECT count(*) FROM tokens)";
    if database.query_row(miscount_query, [], |row| row.get(0)).expect("compare the counters") {
        report.add_violation(DurabilityViolation::UsageMiscounted);
    }

    let mut statement =
        database.prepare("SELECT fingerprint, id FROM tokens").expect("run the query");
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("run the query");
    let mut by_fingerprint: HashMap<Vec<u8>, Vec<String>> = HashMap::new();
    for row in rows {
        let (fingerprint, id) = row.expect("read a row");
        by_fingerprint.entry(fingerprint).or_default().push(id);
    }
    let repeated: HashSet<&str> = ids(histories, |it| it.retried);
    // Each number is used with one idempotency key only, so two rows with a fingerprint are two
    // effects.
    for ids in by_fingerprint.values().filter(|it| it.len() > 1) {
        let was_unknown = ids.iter().any(|it| repeated.contains(it.as_str()));
        report.add_violation(if was_unknown {
            DurabilityViolation::CreatedTwiceAfterUnknownOutcome
        } else {
            DurabilityViolation::CreatedTwiceAfterResponse
        });
    }
    let stored_ids: HashSet<&str> = by_fingerprint.values().flatten().map(String::as_str).collect();
    if stored_ids != ids(histories, |it| !it.is_deleted()) {
        report.add_violation(DurabilityViolation::UnknownRows);
    }
}

/// Checks that every completed read before the kill has a record on disk.
pub(crate) fn check_read_log(file: &Path, histories: &[TokenHistory], report: &mut RunReport) {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.expect("open the read log");
    let sql =
        "SELECT trace FROM log_records WHERE operation = 'get_token' AND outcome = 'revealed'";
    let mut statement = database.prepare(sql).expect("run the query");
    let rows = statement.query_map([], |row| row.get(0)).expect("run the query");
    let recorded_traces: HashSet<String> = rows.map(|it| it.expect("read a row")).collect();
    for read_trace in histories.iter().filter_map(|it| it.read_trace.as_ref()) {
        if !recorded_traces.contains(read_trace) {
            report.add_violation(DurabilityViolation::ReadNotRecorded);
        }
    }
}

fn ids(histories: &[TokenHistory], filter: fn(&TokenHistory) -> bool) -> HashSet<&str> {
    let created = histories.iter().filter(|it| filter(it)).filter_map(|it| it.created.as_ref());
    created.map(|it| it.id.as_str()).collect()
}
