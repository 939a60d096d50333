//! Deliveries of reads: SQLite writes them with the read log, and moves them to the vault.

use rusqlite::Connection;
use scrip_core::{
    read_log::{ReadLogBatch, ReadLogEntry},
    types::Operation,
};
use scrip_testing::{store_harness::StoreHarness, vault_harness::Engine};

use crate::deliveries::claims::{claim, numbers};

on_every_engine! {
    StoreHarness;
    deliveries_of_reads_are_claimed_after_the_move
}

async fn append_reads(harness: &StoreHarness, events: impl Iterator<Item = u8>) {
    let batch = ReadLogBatch {
        tenant: harness.tenant(),
        audit: harness.audit(Operation::GetToken),
        entries: vec![ReadLogEntry::new("one".to_owned(), "read")],
        deliveries: events.map(|it| harness.new_delivery(it)).collect(),
    };
    harness.store().append_read_log(batch).await.unwrap();
}

async fn move_all(harness: &StoreHarness) -> usize {
    let mut total = 0;
    while let count @ 1.. = harness.store().move_read_deliveries().await.unwrap() {
        total += count;
    }
    total
}

async fn deliveries_of_reads_are_claimed_after_the_move(harness: StoreHarness) {
    append_reads(&harness, 1..3).await;
    append_reads(&harness, 3..5).await;
    move_all(&harness).await;
    assert_eq!(numbers(&claim(&harness, 9).await), [1, 2, 3, 4]);
    assert_eq!(move_all(&harness).await, 0);
}

fn count_read_deliveries(read_log: &Connection) -> i64 {
    let sql = "SELECT count(*) FROM read_deliveries";
    read_log.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn open_read_log(harness: &StoreHarness) -> Connection {
    let file = harness.vault_harness.file().with_file_name("read_log.db");
    Connection::open(file).unwrap()
}

#[tokio::test]
async fn many_deliveries_of_reads_are_moved_in_steps() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    for _ in 0..3 {
        append_reads(&harness, 0..200).await;
        harness.advance(std::time::Duration::from_secs(1));
    }
    assert_eq!(harness.list_deliveries().await, []);
    assert_eq!(harness.store().move_read_deliveries().await.unwrap(), 256);
    assert_eq!(move_all(&harness).await, 600 - 256);
    assert_eq!(harness.list_deliveries().await.len(), 600);
    assert_eq!(count_read_deliveries(&open_read_log(&harness)), 0);
}

/// A kill between the copy and the deletion leaves the rows in both databases.
#[tokio::test]
async fn move_after_a_kill_between_copy_and_deletion_changes_nothing() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    append_reads(&harness, 1..4).await;
    let read_log = open_read_log(&harness);
    read_log.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM read_deliveries").unwrap();
    assert_eq!(move_all(&harness).await, 3);
    let claimed = claim(&harness, 1).await;
    assert_eq!(numbers(&claimed), [1]);
    let before = harness.list_deliveries().await;
    read_log.execute_batch("INSERT INTO read_deliveries SELECT * FROM kept").unwrap();
    assert_eq!(move_all(&harness).await, 3);
    assert_eq!(harness.list_deliveries().await, before);
    assert_eq!(count_read_deliveries(&read_log), 0);
}

/// The number of a deleted row is used again.
#[tokio::test]
async fn new_delivery_with_the_number_of_a_moved_one_is_not_lost() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    for number in 1..9 {
        append_reads(&harness, number..number + 1).await;
        assert_eq!(move_all(&harness).await, 1);
    }
    assert_eq!(numbers(&claim(&harness, 9).await), (1..9).collect::<Vec<_>>());
}

#[tokio::test]
async fn altered_delivery_of_a_read_is_deleted_and_the_others_are_moved() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    append_reads(&harness, 1..4).await;
    let read_log = open_read_log(&harness);
    let sql = "UPDATE read_deliveries SET event_type = CAST(x'ff' AS TEXT) WHERE seq = 1";
    assert_eq!(read_log.execute(sql, []).unwrap(), 1);
    assert_eq!(move_all(&harness).await, 3);
    assert_eq!(numbers(&claim(&harness, 9).await), [2, 3]);
    assert_eq!(count_read_deliveries(&read_log), 0);
}
