//! What is shown of the logs: every record that was there throughout once, the newest first.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    audit::{
        Access, AuditRecord, AuditTrail, EntityType, Log, LogRecord, Operation, Reads,
        RecordFilter, Seen,
    },
    error::Error,
    operations::logs::list_logs::{LogPage, LogsAsked, list_logs},
    policy::{ApplicationKind, Caller, Permission},
    time::Timestamp,
    token::Deduplicate,
};
use scrip_seal::Sealed;
use scrip_testing::{
    clock::START,
    policy::plain,
    store_harness::{InsertToken, StoreHarness, bare, record},
    vault_harness::Engine,
};

on_every_engine! {
    Reader;
    both_logs_are_merged_by_time
    filters_go_together
    what_is_recorded_meanwhile_moves_no_page
    a_cursor_fits_its_own_question_only
    what_is_not_kept_any_longer_is_not_shown
    a_long_search_is_cut_into_pages
    a_number_does_not_reach_past_the_bound
    an_operators_clock_hides_nothing
}

const SECOND: Duration = Duration::from_secs(1);

struct Reader {
    desk: StoreHarness,
    manager: Caller,
}

type Shown = (Log, LogRecord);

impl Reader {
    async fn open(engine: Engine) -> Self {
        let mut desk = StoreHarness::open(engine).await;
        let tenant = desk.caller.principal().tenant();
        let access = plain(&[Permission::LogRead]);
        let manager = desk.world.caller_of(tenant, ApplicationKind::Management, access).await;
        // Pages that are read would be among the records that the tests look for.
        let key = Arc::clone(desk.world.vault.audit.key().unwrap());
        desk.world.vault.audit = Arc::new(AuditTrail::new(Reads::Off));
        desk.world.vault.audit.open(&key);
        // What it took to come so far is recorded too; a day and it is not shown any more.
        desk.advance(scrip_testing::store_harness::DAY + SECOND);
        Self { desk, manager }
    }

    async fn write(&self, id: &str, at: Timestamp) {
        let audit = AuditRecord::new(Operation::CreateToken, &self.desk.caller, at);
        let insert = self.desk.insertion(bare(record(id)), Deduplicate::No);
        self.desk.insert_token(InsertToken { audit, ..insert }).await.unwrap();
    }

    async fn read(&self, id: &str, at: Timestamp) {
        self.read_all(vec![Seen::new(id, "masked")], at).await;
    }

    async fn read_all(&self, seen: Vec<Seen>, at: Timestamp) {
        let audit = AuditRecord::new(Operation::GetToken, &self.desk.caller, at);
        let tenant = self.desk.caller.tenant().id;
        self.desk.store().record_access(Access { tenant, audit, seen }).await.unwrap();
    }

    async fn page(
        &self,
        filter: &RecordFilter,
        start: Option<Sealed>,
        page: Option<usize>,
        size: usize,
    ) -> Result<LogPage, Error> {
        let asked = LogsAsked { filter: filter.clone(), start, page, size };
        list_logs(&self.desk.world.vault, &self.manager, asked).await
    }

    /// From cursor to cursor, and how many pages that were.
    async fn walk(&self, filter: &RecordFilter, size: usize) -> (Vec<Shown>, usize) {
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
    async fn count(&self, filter: &RecordFilter, size: usize) -> Vec<Shown> {
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
    async fn scan(&self, filter: &RecordFilter) -> BTreeSet<(Log, i64)> {
        let tenant = self.desk.caller.tenant().id;
        let kept = self.desk.now().before(scrip_testing::store_harness::DAY);
        let mut all = BTreeSet::new();
        for log in Log::ALL {
            let records = self.desk.store().list_records(log, tenant, 0, usize::MAX).await;
            let shown = |it: &LogRecord| filter.is_met(&it.row()) && it.at >= kept;
            all.extend(records.unwrap().iter().filter(|it| shown(it)).map(|it| (log, it.n)));
        }
        all
    }
}

fn entities(records: &[Shown]) -> Vec<&str> {
    records.iter().map(|(_, it)| it.entity.as_str()).collect()
}

fn later(seconds: u32) -> Timestamp {
    START.after(scrip_testing::store_harness::DAY + SECOND + SECOND * seconds)
}

async fn both_logs_are_merged_by_time(it: Reader) {
    it.write("one", later(1)).await;
    it.read("two", later(2)).await;
    it.write("three", later(3)).await;
    it.write("four", later(4)).await;
    it.read("five", later(5)).await;
    it.read("six", later(6)).await;
    let order = ["six", "five", "four", "three", "two", "one"];
    for size in [1, 2, 3, 5, 6, 7, 100] {
        let (shown, pages) = it.walk(&RecordFilter::default(), size).await;
        assert_eq!(entities(&shown), order);
        assert_eq!(pages, 6_usize.div_ceil(size), "no page is empty");
        let counted = it.count(&RecordFilter::default(), size).await;
        assert_eq!(entities(&counted), order);
    }
    // Numbers are counted from a cursor, too.
    let first = it.page(&RecordFilter::default(), None, None, 1).await.unwrap();
    let third = it.page(&RecordFilter::default(), first.next, Some(2), 2).await.unwrap();
    assert_eq!(entities(&third.records), ["three", "two"]);
    let beyond = it.page(&RecordFilter::default(), None, Some(usize::MAX), 2).await.unwrap();
    assert!(beyond.records.is_empty() && beyond.next.is_none());
}

async fn filters_go_together(it: Reader) {
    for at in 0..10 {
        it.write(&format!("token-{at}"), later(at * 2)).await;
        it.read(&format!("token-{at}"), later(at * 2 + 1)).await;
    }
    let all = RecordFilter::default();
    let by_name = RecordFilter { entity: Some("token-3".to_owned()), ..all.clone() };
    let of_type = |it| RecordFilter { entity_type: Some(it), ..by_name.clone() };
    let dated = RecordFilter { from: Some(later(4)), to: Some(later(8)), ..all.clone() };
    let actor = Some(it.desk.caller.application());
    let strange = Some(it.desk.stranger.application());
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
        (RecordFilter { from: Some(later(20)), ..all.clone() }, 0),
        (RecordFilter { to: Some(later(0)), ..all }, 0),
    ] {
        let (shown, _) = it.walk(&filter, 3).await;
        assert_eq!(shown.len(), expected, "{filter:?}");
        assert_eq!(it.count(&filter, 3).await, shown, "{filter:?}");
    }
    // Of another tenant nothing.
    let Reader { desk, manager } = it;
    let it = Reader { desk: desk.turned(), manager };
    it.write("theirs", later(50)).await;
    assert_eq!(it.walk(&RecordFilter::default(), 100).await.0.len(), 20);
}

async fn what_is_recorded_meanwhile_moves_no_page(it: Reader) {
    for at in 0..8 {
        it.write(&format!("write-{at}"), later(at)).await;
        it.read(&format!("read-{at}"), later(at)).await;
    }
    let (expected, _) = it.walk(&RecordFilter::default(), 100).await;
    let (mut seen, mut start) = (Vec::new(), None);
    for at in 100.. {
        let page = it.page(&RecordFilter::default(), start, None, 3).await.unwrap();
        seen.extend(page.records);
        it.write(&format!("write-{at}"), later(at)).await;
        it.read(&format!("read-{at}"), later(at)).await;
        start = page.next;
        if start.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
}

async fn a_cursor_fits_its_own_question_only(it: Reader) {
    for at in 0..4 {
        it.write(&format!("token-{at}"), later(at)).await;
    }
    let all = RecordFilter::default();
    let next = || async { it.page(&all, None, None, 1).await.unwrap().next };
    let dated = RecordFilter { from: Some(later(0)), ..all.clone() };
    let named = RecordFilter { entity: Some(String::new()), ..all.clone() };
    for other in [dated, named] {
        let refused = it.page(&other, next().await, None, 1).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{other:?}");
    }
    let strange = Sealed::from_stored(vec![1; 80]);
    assert!(matches!(it.page(&all, Some(strange), None, 1).await, Err(Error::Invalid(_))));
    assert!(it.page(&all, next().await, None, 1).await.is_ok());
}

async fn what_is_not_kept_any_longer_is_not_shown(it: Reader) {
    it.write("first", later(0)).await;
    it.read("second", later(10)).await;
    let shown = async |expected: &[&str]| {
        let (shown, _) = it.walk(&RecordFilter::default(), 100).await;
        assert_eq!(entities(&shown), expected);
    };
    it.desk.advance(scrip_testing::store_harness::DAY);
    shown(&["second", "first"]).await;
    it.desk.advance(Duration::from_millis(1));
    shown(&["second"]).await;
    // Asking for more does not bring it back.
    let (older, _) =
        it.walk(&RecordFilter { from: Some(START), ..RecordFilter::default() }, 9).await;
    assert_eq!(entities(&older), ["second"]);
    it.desk.advance(SECOND * 10);
    shown(&[]).await;
}

/// More than one request looks at.
const MANY: u32 = 51_000;

async fn many(it: &Reader) {
    it.read("first", later(0)).await;
    let seen = vec![Seen::new("other", "masked"); usize::try_from(MANY).unwrap()];
    it.read_all(seen, later(1)).await;
    it.write("last", later(2)).await;
}

async fn a_long_search_is_cut_into_pages(it: Reader) {
    many(&it).await;
    let filter = RecordFilter { entity: Some("first".to_owned()), ..RecordFilter::default() };
    let page = it.page(&filter, None, None, 10).await.unwrap();
    assert!(page.records.is_empty() && page.next.is_some());
    let page = it.page(&filter, page.next, None, 10).await.unwrap();
    assert_eq!(entities(&page.records), ["first"]);
    assert!(page.next.is_none());
    let page = it.page(&RecordFilter::default(), None, None, 1).await.unwrap();
    assert_eq!(entities(&page.records), ["last"]);
}

async fn a_number_does_not_reach_past_the_bound(it: Reader) {
    many(&it).await;
    let filter = RecordFilter { entity: Some("first".to_owned()), ..RecordFilter::default() };
    let all = RecordFilter::default();
    for (filter, page) in [(&filter, 1), (&all, 510), (&all, usize::MAX)] {
        let refused = it.page(filter, None, Some(page), 100).await;
        assert!(matches!(refused, Err(Error::Unprocessable { .. })), "{page}");
    }
    let page = it.page(&all, None, Some(450), 100).await.unwrap();
    assert_eq!(page.records.len(), 100);
}

/// Commands take the wall clock as it is.
async fn an_operators_clock_hides_nothing(it: Reader) {
    let minutes = |it: u32| later(it * 60);
    for at in 0..64 {
        // Wherever the halving begins, one that is wrong is there.
        let time = match at % 4 {
            0 => minutes(0),
            2 => minutes(1000),
            _ => minutes(at * 10),
        };
        it.read(&format!("{at}"), time).await;
    }
    it.desk.advance(Duration::from_secs(64 * 600));
    for at in (1..64).step_by(2) {
        let (from, to) = (Some(minutes(at * 10)), Some(minutes(at * 10 + 1)));
        let filter = RecordFilter { from, to, ..RecordFilter::default() };
        let (shown, _) = it.walk(&filter, 100).await;
        assert_eq!(entities(&shown), [at.to_string()]);
    }
}

#[derive(Debug, Clone)]
struct Drawn {
    reads: bool,
    name: u8,
    /// After the one before, and how far out of order, in seconds.
    after: u32,
    early: u32,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let early = prop_oneof![4 => Just(0_u32), 1 => 0..9_u32];
    let after = prop_oneof![6 => 0..2_u32, 1 => 200..900_u32];
    (any::<bool>(), 0..4_u8, after, early).prop_map(|(reads, name, after, early)| Drawn {
        reads,
        name,
        after,
        early,
    })
}

async fn every_record_once(engine: Engine, drawn: &[Drawn], filter: RecordFilter, size: usize) {
    let it = Reader::open(engine).await;
    let mut seconds = 10;
    for (at, record) in drawn.iter().enumerate() {
        seconds += record.after;
        let time = later(seconds - record.early);
        if record.reads {
            it.read(&format!("{}", record.name), time).await;
        } else {
            it.write(&format!("{}-{at}", record.name), time).await;
        }
    }
    let (shown, _) = it.walk(&filter, size).await;
    let numbers: BTreeSet<_> = shown.iter().map(|(log, it)| (*log, it.n)).collect();
    assert_eq!(numbers.len(), shown.len(), "none twice");
    assert_eq!(numbers, it.scan(&filter).await, "and all");
    for log in Log::ALL {
        let own: Vec<_> = shown.iter().filter(|it| it.0 == log).map(|it| it.1.n).collect();
        assert!(own.is_sorted_by(|one, next| one > next), "the newest first");
    }
    let time = |it: &Shown| it.1.at.unix_ms;
    assert!(shown.is_sorted_by(|one, next| time(one) + 10_000 >= time(next)), "nearly by time");
    assert_eq!(it.count(&filter, size).await, shown, "by number as by cursor");
}

#[test]
fn any_list_shows_every_record_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() };
    let entity = prop_oneof![2 => Just(None), 1 => (0..4_u8).prop_map(|it| Some(it.to_string()))];
    let times = (proptest::option::of(0..6000_u32), proptest::option::of(0..6000_u32));
    let strategy = (vec(drawn(), 0..80), entity, times, 1..12_usize);
    let outcome = TestRunner::new(config).run(&strategy, |(drawn, entity, (from, to), size)| {
        let (from, to) = (from.map(later), to.map(later));
        let filter = RecordFilter { entity, from, to, ..RecordFilter::default() };
        for engine in [Engine::Memory, Engine::Sqlite, Engine::Postgres] {
            runtime.block_on(every_record_once(engine, &drawn, filter.clone(), size));
        }
        Ok(())
    });
    outcome.unwrap();
}
