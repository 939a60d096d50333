//! Round trips between a node and PostgreSQL, counted by a proxy.

use std::sync::{Arc, Mutex};

use scrip_core::{
    read_log::{ReadLogBatch, ReadLogEntry},
    store::{AuditStore, TokenStore},
    token::TokenRecord,
    token_batch::{BatchOutcome, TokenBatch, TokenWrite, WriteOutcome},
    types::{Operation, Permission},
};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    store_harness::{DEDUPLICATE, StoreHarness, token_record, without_cvc},
    vault_harness::{Engine, token_id},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
};

/// Messages that a node sent since the last call of `take`.
#[derive(Debug, Default)]
struct SentMessages {
    /// The type bytes of its messages; `P` prepares a statement.
    letters: String,
    round_trips: usize,
    has_response: bool,
}

#[derive(Debug, Clone, Default)]
struct CountingProxy(Arc<Mutex<SentMessages>>);

impl CountingProxy {
    fn take(&self) -> (usize, String) {
        let mut sent = self.0.lock().unwrap();
        let SentMessages { letters, round_trips, .. } = std::mem::replace(
            &mut *sent,
            SentMessages { has_response: true, ..SentMessages::default() },
        );
        (round_trips, letters)
    }

    /// Counts complete messages, each a type byte and a length; the first message of a connection
    /// has no type byte.
    fn count_messages(&self, bytes: &mut Vec<u8>, is_first: &mut bool) {
        let mut sent = self.0.lock().unwrap();
        if sent.has_response {
            sent.round_trips += 1;
        }
        sent.has_response = false;
        loop {
            let length_start = usize::from(!*is_first);
            let Some(length) = bytes.get(length_start..length_start + 4) else { return };
            let length = u32::from_be_bytes(length.try_into().unwrap());
            let message_end = length_start + usize::try_from(length).unwrap();
            if bytes.len() < message_end {
                return;
            }
            if !*is_first {
                sent.letters.push(char::from(bytes[0]));
            }
            *is_first = false;
            bytes.drain(..message_end);
        }
    }

    async fn relay(self, node: TcpStream, engine: UnixStream) {
        let (mut from_node, mut to_node) = node.into_split();
        let (mut from_engine, mut to_engine) = engine.into_split();
        let counter = self.clone();
        let relay_requests = async move {
            let (mut chunk, mut bytes, mut is_first) = ([0; 65536], Vec::new(), true);
            while let Ok(count @ 1..) = from_node.read(&mut chunk).await {
                bytes.extend_from_slice(&chunk[..count]);
                counter.count_messages(&mut bytes, &mut is_first);
                to_engine.write_all(&chunk[..count]).await.unwrap();
            }
        };
        let relay_responses = async move {
            let mut chunk = [0; 65536];
            while let Ok(count @ 1..) = from_engine.read(&mut chunk).await {
                self.0.lock().unwrap().has_response = true;
                if to_node.write_all(&chunk[..count]).await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(relay_requests, relay_responses);
    }
}

/// Opens a node of the vault that is connected through a proxy.
async fn open_proxied_node(harness: &StoreHarness) -> (PostgresStore, CountingProxy) {
    let url = harness.vault_harness.database().url();
    let (role, address) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let (host, database) = address.split_once('/').unwrap();
    let socket = format!("{}/.s.PGSQL.5432", host.replace("%2F", "/"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = CountingProxy::default();
    let accepting_proxy = proxy.clone();
    drop(tokio::spawn(async move {
        while let Ok((node, _)) = listener.accept().await {
            let engine = UnixStream::connect(&socket).await.unwrap();
            drop(tokio::spawn(accepting_proxy.clone().relay(node, engine)));
        }
    }));
    let url = format!("postgres://{role}@127.0.0.1:{port}/{database}");
    let store = PostgresStore::open(PostgresSettings::parse(&url).unwrap()).await.unwrap();
    (store, proxy)
}

async fn create_two_tokens(harness: &StoreHarness, node: &PostgresStore, first: u8) {
    let writes = [first, first + 1].map(|number| {
        let fingerprint = Some(scrip_seal::Fingerprint([number; 32]));
        let token =
            without_cvc(TokenRecord { fingerprint, ..token_record(&format!("id-{number}")) });
        let (_, mut batch) = harness.insert_batch(harness.new_insert(token, DEDUPLICATE));
        batch.writes.remove(0)
    });
    let response = harness.idempotency_record([first; 32]);
    let build_record: scrip_core::token_batch::BuildIdempotencyRecord =
        Box::new(move |_| Some(response));
    let batch =
        TokenBatch { writes: Vec::<TokenWrite>::from(writes), build_record: Some(build_record) };
    let outcome = node.write_tokens(harness.lookup_permit(), batch).await.unwrap();
    assert_eq!(outcome, BatchOutcome::Written(vec![WriteOutcome::New, WriteOutcome::New]));
}

/// Runs on one thread, so that pipelined messages are queued before any of them is sent.
#[tokio::test]
async fn create_and_read_take_the_minimum_of_round_trips() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let (node, proxy) = open_proxied_node(&harness).await;
    let read_log_batch = || ReadLogBatch {
        tenant: harness.caller.tenant().id,
        audit: harness.audit(Operation::GetToken),
        entries: vec![ReadLogEntry::new("id-1".to_owned(), "read")],
        deliveries: Vec::new(),
    };
    let find_token = async || {
        let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        node.find_token(lookup, &token_id("id-1"), harness.now()).await.unwrap().unwrap()
    };
    create_two_tokens(&harness, &node, 1).await;
    find_token().await;
    node.append_read_log(read_log_batch()).await.unwrap();
    assert!(proxy.take().1.contains('P'), "statements should be prepared on first use");
    let assert_round_trips = |expected: usize, operation: &str| {
        let (round_trips, letters) = proxy.take();
        assert_eq!(
            (round_trips, letters.contains('P')),
            (expected, false),
            "{operation}: {letters}"
        );
    };
    create_two_tokens(&harness, &node, 3).await;
    assert_round_trips(2, "a create of two tokens with an idempotency key");
    find_token().await;
    assert_round_trips(1, "a read");
    node.append_read_log(read_log_batch()).await.unwrap();
    assert_round_trips(2, "the record of a read");
}
