//! What the database file itself says, with no server between.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use rusqlite::{Connection, OpenFlags};

use crate::{DurabilityViolation, RunReport, token_histories::TokenHistory};

/// One row for every token that is there, none beside, one record for every one ever made.
pub(crate) fn check_rows(file: &Path, histories: &[TokenHistory], report: &mut RunReport) {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.expect("the database opens");
    let sound: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("the check runs");
    if sound != "ok" {
        report.add_violation(DurabilityViolation::DatabaseCorrupt);
    }
    let recorded: i64 = database
        .query_row("SELECT count(*) FROM audit WHERE operation = 'create_token'", [], |row| {
            row.get(0)
        })
        .expect("the audit can be counted");
    if usize::try_from(recorded) != Ok(histories.len()) {
        report.add_violation(DurabilityViolation::CreateNotRecorded);
    }

    let miscounted = "SELECT EXISTS (
        SELECT tenant, type, count FROM usage_types WHERE count > 0
        EXCEPT SELECT tenant, type, count(*) FROM tokens GROUP BY tenant, type
    ) OR (SELECT coalesce(sum(count), 0) FROM usage_types) <> (SELECT count(*) FROM tokens)";
    if database.query_row(miscounted, [], |row| row.get(0)).expect("it counts") {
        report.add_violation(DurabilityViolation::UsageMiscounted);
    }

    let mut statement = database.prepare("SELECT fingerprint, id FROM tokens").expect("it reads");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("it reads");
    let mut by_fingerprint: HashMap<Vec<u8>, Vec<String>> = HashMap::new();
    for row in rows {
        let (fingerprint, id) = row.expect("a row reads");
        by_fingerprint.entry(fingerprint).or_default().push(id);
    }
    let repeated: HashSet<&str> = ids(histories, |it| it.retried);
    // Every number is asked for under one key only, so two rows with a fingerprint are two effects.
    for ids in by_fingerprint.values().filter(|it| it.len() > 1) {
        let was_unknown = ids.iter().any(|it| repeated.contains(it.as_str()));
        report.add_violation(if was_unknown {
            DurabilityViolation::CreatedTwiceAfterUnknownOutcome
        } else {
            DurabilityViolation::CreatedTwiceAfterResponse
        });
    }
    let present: HashSet<&str> = by_fingerprint.values().flatten().map(String::as_str).collect();
    if present != ids(histories, |it| !it.is_deleted()) {
        report.add_violation(DurabilityViolation::UnknownRows);
    }
}

/// Whatever was shown before the kill, that it was is on disk after it.
pub(crate) fn check_read_log(file: &Path, histories: &[TokenHistory], report: &mut RunReport) {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.expect("the access log opens");
    let sql = "SELECT trace FROM audit WHERE operation = 'get_token' AND outcome = 'revealed'";
    let mut statement = database.prepare(sql).expect("it reads");
    let rows = statement.query_map([], |row| row.get(0)).expect("it reads");
    let recorded: HashSet<String> = rows.map(|it| it.expect("a row reads")).collect();
    for read in histories.iter().filter_map(|it| it.read_trace.as_ref()) {
        if !recorded.contains(read) {
            report.add_violation(DurabilityViolation::ReadNotRecorded);
        }
    }
}

fn ids(histories: &[TokenHistory], filter: fn(&TokenHistory) -> bool) -> HashSet<&str> {
    let told = histories.iter().filter(|it| filter(it)).filter_map(|it| it.created.as_ref());
    told.map(|it| it.id.as_str()).collect()
}
