//! Lists of log records: every record that exists throughout is listed once, newest first.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    Error, Timestamp,
    audit::{AuditRecord, AuditTrail, LogKind, LogRecord, ReadRecording, RecordFilter},
    disclosure::Deduplicate,
    listing::CursorPage,
    operations::logs::list_logs::{ListLogsQuery, list_logs},
    policy::Caller,
    read_log::{ReadLogBatch, ReadLogEntry},
    types::{ApplicationKind, EntityType, Operation, Permission},
};
use scrip_seal::Sealed;
use scrip_testing::{
    clock::START,
    policy::access_without_rules,
    store_harness::{SingleInsert, StoreHarness, token_record, without_cvc},
    vault_harness::Engine,
};

on_every_engine! {
    LogListHarness;
    audit_and_read_log_are_merged_by_time
    log_filters_combine
    new_records_do_not_shift_cursor_pages_of_logs
    log_cursor_is_rejected_with_another_filter
    records_past_retention_are_not_listed
    log_search_past_the_scan_limit_continues_on_the_next_page
    log_page_number_past_the_scan_limit_is_rejected
    operator_records_with_a_wrong_time_hide_no_other_log_records
}

const SECOND: Duration = Duration::from_secs(1);

struct LogListHarness {
    store_harness: StoreHarness,
    manager: Caller,
}

type ListedRecord = (LogKind, LogRecord);

impl LogListHarness {
    async fn open(engine: Engine) -> Self {
        let mut harness = StoreHarness::open(engine).await;
        let tenant = harness.caller.principal().tenant();
        let access = access_without_rules(&[Permission::LogRead]);
        let manager =
            harness.vault_harness.caller_of_kind(tenant, ApplicationKind::Management, access).await;
        // Recording is off, because reads of pages would add records.
        let key = Arc::clone(harness.vault_harness.vault.audit_trail.key().unwrap());
        harness.vault_harness.vault.audit_trail = Arc::new(AuditTrail::new(ReadRecording::Off));
        harness.vault_harness.vault.audit_trail.set_key(&key);
        // The setup wrote records too; one day later the lists do not include them.
        harness.advance(scrip_testing::store_harness::DAY + SECOND);
        Self { store_harness: harness, manager }
    }

    async fn write(&self, id: &str, at: Timestamp) {
        let audit = AuditRecord::new(Operation::CreateToken, &self.store_harness.caller, at);
        let insert = self.store_harness.new_insert(without_cvc(token_record(id)), Deduplicate::No);
        self.store_harness.insert_token(SingleInsert { audit, ..insert }).await.unwrap();
    }

    async fn read(&self, id: &str, at: Timestamp) {
        self.read_all(vec![ReadLogEntry::new(id, "masked")], at).await;
    }

    async fn read_all(&self, entries: Vec<ReadLogEntry>, at: Timestamp) {
        let audit = AuditRecord::new(Operation::GetToken, &self.store_harness.caller, at);
        let tenant = self.store_harness.caller.tenant().id;
        self.store_harness
            .store()
            .append_read_log(ReadLogBatch { tenant, audit, entries, deliveries: Vec::new() })
            .await
            .unwrap();
    }

    async fn page(
        &self,
        filter: &RecordFilter,
        start: Option<Sealed>,
        page: Option<usize>,
        size: usize,
    ) -> Result<CursorPage<(LogKind, LogRecord)>, Error> {
        let query = ListLogsQuery { filter: filter.clone(), start, page, size };
        list_logs(&self.store_harness.vault_harness.vault, &self.manager, query).await
    }

    /// Lists by cursor. Also returns the number of pages.
    async fn list_by_cursor(
        &self,
        filter: &RecordFilter,
        size: usize,
    ) -> (Vec<ListedRecord>, usize) {
        let (mut records, mut start, mut page_count) = (Vec::new(), None, 0);
        loop {
            let page = self.page(filter, start, None, size).await.unwrap();
            assert!(page.items.len() <= size);
            records.extend(page.items);
            page_count += 1;
            start = page.next;
            if start.is_none() {
                return (records, page_count);
            }
        }
    }

    /// Lists by page number, like a client that requests pages until one is empty.
    async fn list_by_page_number(&self, filter: &RecordFilter, size: usize) -> Vec<ListedRecord> {
        let mut records = Vec::new();
        for number in 1.. {
            let page = self.page(filter, None, Some(number), size).await.unwrap();
            if page.items.is_empty() {
                break;
            }
            records.extend(page.items);
        }
        records
    }

    /// The expected records, computed without the list functions.
    async fn expected_records(&self, filter: &RecordFilter) -> BTreeSet<(LogKind, i64)> {
        let tenant = self.store_harness.caller.tenant().id;
        let retention_start = self.store_harness.now().minus(scrip_testing::store_harness::DAY);
        let mut expected = BTreeSet::new();
        for log in LogKind::ALL {
            let records = self.store_harness.store().list_records(log, tenant, 0, usize::MAX).await;
            let is_listed =
                |it: &LogRecord| filter.matches(&it.to_row()) && it.at >= retention_start;
            expected.extend(
                records.unwrap().iter().filter(|it| is_listed(it)).map(|it| (log, it.sequence)),
            );
        }
        expected
    }
}

fn entities(records: &[ListedRecord]) -> Vec<&str> {
    records.iter().map(|(_, it)| it.entity.as_str()).collect()
}

fn timestamp_after(seconds: u32) -> Timestamp {
    START.plus(scrip_testing::store_harness::DAY + SECOND + SECOND * seconds)
}

async fn audit_and_read_log_are_merged_by_time(it: LogListHarness) {
    it.write("one", timestamp_after(1)).await;
    it.read("two", timestamp_after(2)).await;
    it.write("three", timestamp_after(3)).await;
    it.write("four", timestamp_after(4)).await;
    it.read("five", timestamp_after(5)).await;
    it.read("six", timestamp_after(6)).await;
    let order = ["six", "five", "four", "three", "two", "one"];
    for size in [1, 2, 3, 5, 6, 7, 100] {
        let (listed, page_count) = it.list_by_cursor(&RecordFilter::default(), size).await;
        assert_eq!(entities(&listed), order);
        assert_eq!(page_count, 6_usize.div_ceil(size), "no page should be empty");
        let listed_by_number = it.list_by_page_number(&RecordFilter::default(), size).await;
        assert_eq!(entities(&listed_by_number), order);
    }
    // Page numbers also work relative to a cursor.
    let first = it.page(&RecordFilter::default(), None, None, 1).await.unwrap();
    let third = it.page(&RecordFilter::default(), first.next, Some(2), 2).await.unwrap();
    assert_eq!(entities(&third.items), ["three", "two"]);
    let page_past_the_end =
        it.page(&RecordFilter::default(), None, Some(usize::MAX), 2).await.unwrap();
    assert!(page_past_the_end.items.is_empty() && page_past_the_end.next.is_none());
}

async fn log_filters_combine(it: LogListHarness) {
    for number in 0..10 {
        it.write(&format!("token-{number}"), timestamp_after(number * 2)).await;
        it.read(&format!("token-{number}"), timestamp_after(number * 2 + 1)).await;
    }
    let no_filter = RecordFilter::default();
    let entity_filter = RecordFilter { entity: Some("token-3".to_owned()), ..no_filter.clone() };
    let type_filter = |it| RecordFilter { entity_type: Some(it), ..entity_filter.clone() };
    let time_filter = RecordFilter {
        from: Some(timestamp_after(4)),
        to: Some(timestamp_after(8)),
        ..no_filter.clone()
    };
    let actor = Some(it.store_harness.caller.application());
    let other_actor = Some(it.store_harness.stranger.application());
    for (filter, expected) in [
        (no_filter.clone(), 20),
        (entity_filter.clone(), 2),
        (type_filter(EntityType::Token), 2),
        (type_filter(EntityType::Tenant), 0),
        (time_filter.clone(), 4),
        (RecordFilter { operation: Some(Operation::GetToken), ..time_filter.clone() }, 2),
        (RecordFilter { outcome: Some("created"), ..time_filter.clone() }, 2),
        (RecordFilter { outcome: Some("revealed"), ..time_filter }, 0),
        (RecordFilter { actor, ..no_filter.clone() }, 20),
        (RecordFilter { actor: other_actor, ..no_filter.clone() }, 0),
        (RecordFilter { from: Some(timestamp_after(20)), ..no_filter.clone() }, 0),
        (RecordFilter { to: Some(timestamp_after(0)), ..no_filter }, 0),
    ] {
        let (listed, _) = it.list_by_cursor(&filter, 3).await;
        assert_eq!(listed.len(), expected, "{filter:?}");
        assert_eq!(it.list_by_page_number(&filter, 3).await, listed, "{filter:?}");
    }
    // No records of another tenant are listed.
    let LogListHarness { store_harness: harness, manager } = it;
    let it = LogListHarness { store_harness: harness.with_callers_swapped(), manager };
    it.write("theirs", timestamp_after(50)).await;
    assert_eq!(it.list_by_cursor(&RecordFilter::default(), 100).await.0.len(), 20);
}

async fn new_records_do_not_shift_cursor_pages_of_logs(it: LogListHarness) {
    for number in 0..8 {
        it.write(&format!("write-{number}"), timestamp_after(number)).await;
        it.read(&format!("read-{number}"), timestamp_after(number)).await;
    }
    let (expected, _) = it.list_by_cursor(&RecordFilter::default(), 100).await;
    let (mut listed, mut start) = (Vec::new(), None);
    for number in 100.. {
        let page = it.page(&RecordFilter::default(), start, None, 3).await.unwrap();
        listed.extend(page.items);
        it.write(&format!("write-{number}"), timestamp_after(number)).await;
        it.read(&format!("read-{number}"), timestamp_after(number)).await;
        start = page.next;
        if start.is_none() {
            break;
        }
    }
    assert_eq!(listed, expected);
}

async fn log_cursor_is_rejected_with_another_filter(it: LogListHarness) {
    for number in 0..4 {
        it.write(&format!("token-{number}"), timestamp_after(number)).await;
    }
    let no_filter = RecordFilter::default();
    let next_cursor = || async { it.page(&no_filter, None, None, 1).await.unwrap().next };
    let time_filter = RecordFilter { from: Some(timestamp_after(0)), ..no_filter.clone() };
    let entity_filter = RecordFilter { entity: Some(String::new()), ..no_filter.clone() };
    for other_filter in [time_filter, entity_filter] {
        let rejected = it.page(&other_filter, next_cursor().await, None, 1).await;
        assert!(matches!(rejected, Err(Error::Invalid(_))), "{other_filter:?}");
    }
    let invalid_cursor = Sealed::from_stored(vec![1; 80]);
    assert!(matches!(
        it.page(&no_filter, Some(invalid_cursor), None, 1).await,
        Err(Error::Invalid(_))
    ));
    assert!(it.page(&no_filter, next_cursor().await, None, 1).await.is_ok());
}

async fn records_past_retention_are_not_listed(it: LogListHarness) {
    it.write("first", timestamp_after(0)).await;
    it.read("second", timestamp_after(10)).await;
    let assert_listed = async |expected: &[&str]| {
        let (listed, _) = it.list_by_cursor(&RecordFilter::default(), 100).await;
        assert_eq!(entities(&listed), expected);
    };
    it.store_harness.advance(scrip_testing::store_harness::DAY);
    assert_listed(&["second", "first"]).await;
    it.store_harness.advance(Duration::from_millis(1));
    assert_listed(&["second"]).await;
    // A longer time range does not return the record.
    let (longer_range, _) =
        it.list_by_cursor(&RecordFilter { from: Some(START), ..RecordFilter::default() }, 9).await;
    assert_eq!(entities(&longer_range), ["second"]);
    it.store_harness.advance(SECOND * 10);
    assert_listed(&[]).await;
}

/// A number of records that is larger than the number that one request scans.
const RECORD_COUNT: u32 = 51_000;

async fn insert_many_records(it: &LogListHarness) {
    it.read("first", timestamp_after(0)).await;
    let entries =
        vec![ReadLogEntry::new("other", "masked"); usize::try_from(RECORD_COUNT).unwrap()];
    it.read_all(entries, timestamp_after(1)).await;
    it.write("last", timestamp_after(2)).await;
}

async fn log_search_past_the_scan_limit_continues_on_the_next_page(it: LogListHarness) {
    insert_many_records(&it).await;
    let filter = RecordFilter { entity: Some("first".to_owned()), ..RecordFilter::default() };
    let page = it.page(&filter, None, None, 10).await.unwrap();
    assert!(page.items.is_empty() && page.next.is_some());
    let page = it.page(&filter, page.next, None, 10).await.unwrap();
    assert_eq!(entities(&page.items), ["first"]);
    assert!(page.next.is_none());
    let page = it.page(&RecordFilter::default(), None, None, 1).await.unwrap();
    assert_eq!(entities(&page.items), ["last"]);
}

async fn log_page_number_past_the_scan_limit_is_rejected(it: LogListHarness) {
    insert_many_records(&it).await;
    let filter = RecordFilter { entity: Some("first".to_owned()), ..RecordFilter::default() };
    let no_filter = RecordFilter::default();
    for (filter, page) in [(&filter, 1), (&no_filter, 510), (&no_filter, usize::MAX)] {
        let rejected = it.page(filter, None, Some(page), 100).await;
        assert!(matches!(rejected, Err(Error::Unprocessable { .. })), "{page}");
    }
    let page = it.page(&no_filter, None, Some(450), 100).await.unwrap();
    assert_eq!(page.items.len(), 100);
}

/// The times of operator commands are not checked, so they can be wrong.
async fn operator_records_with_a_wrong_time_hide_no_other_log_records(it: LogListHarness) {
    let after_minutes = |it: u32| timestamp_after(it * 60);
    for number in 0..64 {
        // Puts a record with a wrong time at every start of the binary search.
        let time = match number % 4 {
            0 => after_minutes(0),
            2 => after_minutes(1000),
            _ => after_minutes(number * 10),
        };
        it.read(&format!("{number}"), time).await;
    }
    it.store_harness.advance(Duration::from_secs(64 * 600));
    for number in (1..64).step_by(2) {
        let (from, to) = (Some(after_minutes(number * 10)), Some(after_minutes(number * 10 + 1)));
        let filter = RecordFilter { from, to, ..RecordFilter::default() };
        let (listed, _) = it.list_by_cursor(&filter, 100).await;
        assert_eq!(entities(&listed), [number.to_string()]);
    }
}

#[derive(Debug, Clone)]
struct GeneratedRecord {
    is_read: bool,
    name: u8,
    seconds_after_previous: u32,
    /// The time of the record is this many seconds too early.
    seconds_early: u32,
}

fn record_strategy() -> impl Strategy<Value = GeneratedRecord> {
    let early = prop_oneof![4 => Just(0_u32), 1 => 0..9_u32];
    let after = prop_oneof![6 => 0..2_u32, 1 => 200..900_u32];
    (any::<bool>(), 0..4_u8, after, early).prop_map(|(is_read, name, after, early)| {
        GeneratedRecord { is_read, name, seconds_after_previous: after, seconds_early: early }
    })
}

async fn check_every_record_once(
    engine: Engine,
    generated: &[GeneratedRecord],
    filter: RecordFilter,
    size: usize,
) {
    let it = LogListHarness::open(engine).await;
    let mut seconds = 10;
    for (index, record) in generated.iter().enumerate() {
        seconds += record.seconds_after_previous;
        let time = timestamp_after(seconds - record.seconds_early);
        if record.is_read {
            it.read(&format!("{}", record.name), time).await;
        } else {
            it.write(&format!("{}-{index}", record.name), time).await;
        }
    }
    let (listed, _) = it.list_by_cursor(&filter, size).await;
    let numbers: BTreeSet<_> = listed.iter().map(|(log, it)| (*log, it.sequence)).collect();
    assert_eq!(numbers.len(), listed.len(), "a record is listed twice");
    assert_eq!(numbers, it.expected_records(&filter).await, "a record is missing");
    for log in LogKind::ALL {
        let sequences: Vec<_> =
            listed.iter().filter(|it| it.0 == log).map(|it| it.1.sequence).collect();
        assert!(
            sequences.is_sorted_by(|previous, next| previous > next),
            "not sorted newest first"
        );
    }
    let unix_ms = |it: &ListedRecord| it.1.at.unix_ms;
    assert!(
        listed.is_sorted_by(|previous, next| unix_ms(previous) + 10_000 >= unix_ms(next)),
        "not sorted nearly by time"
    );
    assert_eq!(
        it.list_by_page_number(&filter, size).await,
        listed,
        "pages by number differ from pages by cursor"
    );
}

#[test]
fn generated_log_lists_show_every_record_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() };
    let entity = prop_oneof![2 => Just(None), 1 => (0..4_u8).prop_map(|it| Some(it.to_string()))];
    let times = (proptest::option::of(0..6000_u32), proptest::option::of(0..6000_u32));
    let strategy = (vec(record_strategy(), 0..80), entity, times, 1..12_usize);
    let outcome =
        TestRunner::new(config).run(&strategy, |(generated, entity, (from, to), size)| {
            let (from, to) = (from.map(timestamp_after), to.map(timestamp_after));
            let filter = RecordFilter { entity, from, to, ..RecordFilter::default() };
            for engine in [Engine::Memory, Engine::Sqlite, Engine::Postgres] {
                runtime.block_on(check_every_record_once(engine, &generated, filter.clone(), size));
            }
            Ok(())
        });
    outcome.unwrap();
}
