//! What is shown of the logs: every record that was there throughout once, the newest first.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    audit::{
        AuditRecord, AuditTrail, EntityType, LogKind, LogRecord, Operation, ReadLogBatch,
        ReadLogEntry, ReadRecording, RecordFilter,
    },
    error::Error,
    operations::logs::list_logs::{ListLogsQuery, LogPage, list_logs},
    policy::{ApplicationKind, Caller, Permission},
    time::Timestamp,
    token::Deduplicate,
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
    log_search_past_the_scan_bound_continues_on_the_next_page
    log_page_number_past_the_scan_bound_is_rejected
    records_with_an_operators_wrong_clock_hide_no_others
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
        // Pages that are read would be among the records that the tests look for.
        let key = Arc::clone(harness.vault_harness.vault.audit_trail.key().unwrap());
        harness.vault_harness.vault.audit_trail = Arc::new(AuditTrail::new(ReadRecording::Off));
        harness.vault_harness.vault.audit_trail.set_key(&key);
        // What it took to come so far is recorded too; a day and it is not shown any more.
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
            .append_read_log(ReadLogBatch { tenant, audit, entries })
            .await
            .unwrap();
    }

    async fn page(
        &self,
        filter: &RecordFilter,
        start: Option<Sealed>,
        page: Option<usize>,
        size: usize,
    ) -> Result<LogPage, Error> {
        let query = ListLogsQuery { filter: filter.clone(), start, page, size };
        list_logs(&self.store_harness.vault_harness.vault, &self.manager, query).await
    }

    /// From cursor to cursor, and how many pages that were.
    async fn list_by_cursor(
        &self,
        filter: &RecordFilter,
        size: usize,
    ) -> (Vec<ListedRecord>, usize) {
        let (mut all, mut start, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = self.page(filter, start, None, size).await.unwrap();
            assert!(page.records.len() <= size);
            all.extend(page.records);
            pages += 1;
            start = page.next;
            if start.is_none() {
                return (all, pages);
            }
        }
    }

    /// As a client that counts pages until one is empty.
    async fn list_by_page_number(&self, filter: &RecordFilter, size: usize) -> Vec<ListedRecord> {
        let mut all = Vec::new();
        for number in 1.. {
            let page = self.page(filter, None, Some(number), size).await.unwrap();
            if page.records.is_empty() {
                break;
            }
            all.extend(page.records);
        }
        all
    }

    /// What there is, without any way of looking for it.
    async fn expected_records(&self, filter: &RecordFilter) -> BTreeSet<(LogKind, i64)> {
        let tenant = self.store_harness.caller.tenant().id;
        let kept = self.store_harness.now().minus(scrip_testing::store_harness::DAY);
        let mut all = BTreeSet::new();
        for log in LogKind::ALL {
            let records = self.store_harness.store().list_records(log, tenant, 0, usize::MAX).await;
            let listed = |it: &LogRecord| filter.matches(&it.as_row()) && it.at >= kept;
            all.extend(
                records.unwrap().iter().filter(|it| listed(it)).map(|it| (log, it.sequence)),
            );
        }
        all
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
        let (listed, pages) = it.list_by_cursor(&RecordFilter::default(), size).await;
        assert_eq!(entities(&listed), order);
        assert_eq!(pages, 6_usize.div_ceil(size), "no page is empty");
        let counted = it.list_by_page_number(&RecordFilter::default(), size).await;
        assert_eq!(entities(&counted), order);
    }
    // Numbers are counted from a cursor, too.
    let first = it.page(&RecordFilter::default(), None, None, 1).await.unwrap();
    let third = it.page(&RecordFilter::default(), first.next, Some(2), 2).await.unwrap();
    assert_eq!(entities(&third.records), ["three", "two"]);
    let beyond = it.page(&RecordFilter::default(), None, Some(usize::MAX), 2).await.unwrap();
    assert!(beyond.records.is_empty() && beyond.next.is_none());
}

async fn log_filters_combine(it: LogListHarness) {
    for at in 0..10 {
        it.write(&format!("token-{at}"), timestamp_after(at * 2)).await;
        it.read(&format!("token-{at}"), timestamp_after(at * 2 + 1)).await;
    }
    let all = RecordFilter::default();
    let by_name = RecordFilter { entity: Some("token-3".to_owned()), ..all.clone() };
    let of_type = |it| RecordFilter { entity_type: Some(it), ..by_name.clone() };
    let dated = RecordFilter {
        from: Some(timestamp_after(4)),
        to: Some(timestamp_after(8)),
        ..all.clone()
    };
    let actor = Some(it.store_harness.caller.application());
    let strange = Some(it.store_harness.stranger.application());
    for (filter, expected) in [
        (all.clone(), 20),
        (by_name.clone(), 2),
        (of_type(EntityType::Token), 2),
        (of_type(EntityType::Tenant), 0),
        (dated.clone(), 4),
        (RecordFilter { operation: Some(Operation::GetToken), ..dated.clone() }, 2),
        (RecordFilter { outcome: Some("created"), ..dated.clone() }, 2),
        (RecordFilter { outcome: Some("revealed"), ..dated }, 0),
        (RecordFilter { actor, ..all.clone() }, 20),
        (RecordFilter { actor: strange, ..all.clone() }, 0),
        (RecordFilter { from: Some(timestamp_after(20)), ..all.clone() }, 0),
        (RecordFilter { to: Some(timestamp_after(0)), ..all }, 0),
    ] {
        let (listed, _) = it.list_by_cursor(&filter, 3).await;
        assert_eq!(listed.len(), expected, "{filter:?}");
        assert_eq!(it.list_by_page_number(&filter, 3).await, listed, "{filter:?}");
    }
    // Of another tenant nothing.
    let LogListHarness { store_harness: harness, manager } = it;
    let it = LogListHarness { store_harness: harness.with_callers_swapped(), manager };
    it.write("theirs", timestamp_after(50)).await;
    assert_eq!(it.list_by_cursor(&RecordFilter::default(), 100).await.0.len(), 20);
}

async fn new_records_do_not_shift_cursor_pages_of_logs(it: LogListHarness) {
    for at in 0..8 {
        it.write(&format!("write-{at}"), timestamp_after(at)).await;
        it.read(&format!("read-{at}"), timestamp_after(at)).await;
    }
    let (expected, _) = it.list_by_cursor(&RecordFilter::default(), 100).await;
    let (mut entries, mut start) = (Vec::new(), None);
    for at in 100.. {
        let page = it.page(&RecordFilter::default(), start, None, 3).await.unwrap();
        entries.extend(page.records);
        it.write(&format!("write-{at}"), timestamp_after(at)).await;
        it.read(&format!("read-{at}"), timestamp_after(at)).await;
        start = page.next;
        if start.is_none() {
            break;
        }
    }
    assert_eq!(entries, expected);
}

async fn log_cursor_is_rejected_with_another_filter(it: LogListHarness) {
    for at in 0..4 {
        it.write(&format!("token-{at}"), timestamp_after(at)).await;
    }
    let all = RecordFilter::default();
    let next = || async { it.page(&all, None, None, 1).await.unwrap().next };
    let dated = RecordFilter { from: Some(timestamp_after(0)), ..all.clone() };
    let named = RecordFilter { entity: Some(String::new()), ..all.clone() };
    for other in [dated, named] {
        let rejected = it.page(&other, next().await, None, 1).await;
        assert!(matches!(rejected, Err(Error::Invalid(_))), "{other:?}");
    }
    let strange = Sealed::from_stored(vec![1; 80]);
    assert!(matches!(it.page(&all, Some(strange), None, 1).await, Err(Error::Invalid(_))));
    assert!(it.page(&all, next().await, None, 1).await.is_ok());
}

async fn records_past_retention_are_not_listed(it: LogListHarness) {
    it.write("first", timestamp_after(0)).await;
    it.read("second", timestamp_after(10)).await;
    let listed = async |expected: &[&str]| {
        let (listed, _) = it.list_by_cursor(&RecordFilter::default(), 100).await;
        assert_eq!(entities(&listed), expected);
    };
    it.store_harness.advance(scrip_testing::store_harness::DAY);
    listed(&["second", "first"]).await;
    it.store_harness.advance(Duration::from_millis(1));
    listed(&["second"]).await;
    // Asking for more does not bring it back.
    let (older, _) =
        it.list_by_cursor(&RecordFilter { from: Some(START), ..RecordFilter::default() }, 9).await;
    assert_eq!(entities(&older), ["second"]);
    it.store_harness.advance(SECOND * 10);
    listed(&[]).await;
}

/// More than one request looks at.
const MANY: u32 = 51_000;

async fn insert_many_records(it: &LogListHarness) {
    it.read("first", timestamp_after(0)).await;
    let entries = vec![ReadLogEntry::new("other", "masked"); usize::try_from(MANY).unwrap()];
    it.read_all(entries, timestamp_after(1)).await;
    it.write("last", timestamp_after(2)).await;
}

async fn log_search_past_the_scan_bound_continues_on_the_next_page(it: LogListHarness) {
    insert_many_records(&it).await;
    let filter = RecordFilter { entity: Some("first".to_owned()), ..RecordFilter::default() };
    let page = it.page(&filter, None, None, 10).await.unwrap();
    assert!(page.records.is_empty() && page.next.is_some());
    let page = it.page(&filter, page.next, None, 10).await.unwrap();
    assert_eq!(entities(&page.records), ["first"]);
    assert!(page.next.is_none());
    let page = it.page(&RecordFilter::default(), None, None, 1).await.unwrap();
    assert_eq!(entities(&page.records), ["last"]);
}

async fn log_page_number_past_the_scan_bound_is_rejected(it: LogListHarness) {
    insert_many_records(&it).await;
    let filter = RecordFilter { entity: Some("first".to_owned()), ..RecordFilter::default() };
    let all = RecordFilter::default();
    for (filter, page) in [(&filter, 1), (&all, 510), (&all, usize::MAX)] {
        let rejected = it.page(filter, None, Some(page), 100).await;
        assert!(matches!(rejected, Err(Error::Unprocessable { .. })), "{page}");
    }
    let page = it.page(&all, None, Some(450), 100).await.unwrap();
    assert_eq!(page.records.len(), 100);
}

/// Commands take the wall clock as it is.
async fn records_with_an_operators_wrong_clock_hide_no_others(it: LogListHarness) {
    let minutes = |it: u32| timestamp_after(it * 60);
    for at in 0..64 {
        // Wherever the halving begins, one that is wrong is there.
        let time = match at % 4 {
            0 => minutes(0),
            2 => minutes(1000),
            _ => minutes(at * 10),
        };
        it.read(&format!("{at}"), time).await;
    }
    it.store_harness.advance(Duration::from_secs(64 * 600));
    for at in (1..64).step_by(2) {
        let (from, to) = (Some(minutes(at * 10)), Some(minutes(at * 10 + 1)));
        let filter = RecordFilter { from, to, ..RecordFilter::default() };
        let (listed, _) = it.list_by_cursor(&filter, 100).await;
        assert_eq!(entities(&listed), [at.to_string()]);
    }
}

#[derive(Debug, Clone)]
struct GeneratedRecord {
    is_read: bool,
    name: u8,
    /// After the one before, and how far out of order, in seconds.
    seconds_after_previous: u32,
    seconds_early: u32,
}

fn generated_record() -> impl Strategy<Value = GeneratedRecord> {
    let early = prop_oneof![4 => Just(0_u32), 1 => 0..9_u32];
    let after = prop_oneof![6 => 0..2_u32, 1 => 200..900_u32];
    (any::<bool>(), 0..4_u8, after, early).prop_map(|(reads, name, after, early)| GeneratedRecord {
        is_read: reads,
        name,
        seconds_after_previous: after,
        seconds_early: early,
    })
}

async fn check_every_record_once(
    engine: Engine,
    drawn: &[GeneratedRecord],
    filter: RecordFilter,
    size: usize,
) {
    let it = LogListHarness::open(engine).await;
    let mut seconds = 10;
    for (at, record) in drawn.iter().enumerate() {
        seconds += record.seconds_after_previous;
        let time = timestamp_after(seconds - record.seconds_early);
        if record.is_read {
            it.read(&format!("{}", record.name), time).await;
        } else {
            it.write(&format!("{}-{at}", record.name), time).await;
        }
    }
    let (listed, _) = it.list_by_cursor(&filter, size).await;
    let numbers: BTreeSet<_> = listed.iter().map(|(log, it)| (*log, it.sequence)).collect();
    assert_eq!(numbers.len(), listed.len(), "none twice");
    assert_eq!(numbers, it.expected_records(&filter).await, "and all");
    for log in LogKind::ALL {
        let own: Vec<_> = listed.iter().filter(|it| it.0 == log).map(|it| it.1.sequence).collect();
        assert!(own.is_sorted_by(|one, next| one > next), "the newest first");
    }
    let time = |it: &ListedRecord| it.1.at.unix_ms;
    assert!(listed.is_sorted_by(|one, next| time(one) + 10_000 >= time(next)), "nearly by time");
    assert_eq!(it.list_by_page_number(&filter, size).await, listed, "by number as by cursor");
}

#[test]
fn generated_log_lists_show_every_record_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() };
    let entity = prop_oneof![2 => Just(None), 1 => (0..4_u8).prop_map(|it| Some(it.to_string()))];
    let times = (proptest::option::of(0..6000_u32), proptest::option::of(0..6000_u32));
    let strategy = (vec(generated_record(), 0..80), entity, times, 1..12_usize);
    let outcome = TestRunner::new(config).run(&strategy, |(drawn, entity, (from, to), size)| {
        let (from, to) = (from.map(timestamp_after), to.map(timestamp_after));
        let filter = RecordFilter { entity, from, to, ..RecordFilter::default() };
        for engine in [Engine::Memory, Engine::Sqlite, Engine::Postgres] {
            runtime.block_on(check_every_record_once(engine, &drawn, filter.clone(), size));
        }
        Ok(())
    });
    outcome.unwrap();
}
