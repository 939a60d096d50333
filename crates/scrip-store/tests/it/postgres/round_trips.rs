//! How often a node and PostgreSQL wait for each other: seen from between the two.

use std::sync::{Arc, Mutex};

use scrip_core::{
    audit::{Operation, ReadLogBatch, ReadLogEntry},
    policy::Permission,
    store::{AuditStore, TokenStore},
    token::{BatchOutcome, Deduplicate, TokenBatch, TokenRecord, TokenWrite, WriteOutcome},
};
use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::{
    store_harness::{StoreHarness, token_record, without_cvc},
    vault_harness::{Engine, token_id},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
};

/// What a node sent since it was last asked.
#[derive(Debug, Default)]
struct SentMessages {
    /// The letters of its messages; `P` prepares a statement.
    letters: String,
    round_trips: usize,
    has_response: bool,
}

#[derive(Debug, Clone, Default)]
struct CountingProxy(Arc<Mutex<SentMessages>>);

impl CountingProxy {
    fn take(&self) -> (usize, String) {
        let mut sent = self.0.lock().unwrap();
        let SentMessages { letters, round_trips: trips, .. } = std::mem::replace(
            &mut *sent,
            SentMessages { has_response: true, ..SentMessages::default() },
        );
        (trips, letters)
    }

    /// Whole messages, each a letter and a length; the first of a connection has no letter.
    fn count_messages(&self, bytes: &mut Vec<u8>, is_first: &mut bool) {
        let mut sent = self.0.lock().unwrap();
        if sent.has_response {
            sent.round_trips += 1;
        }
        sent.has_response = false;
        loop {
            let at = usize::from(!*is_first);
            let Some(length) = bytes.get(at..at + 4) else { return };
            let length = u32::from_be_bytes(length.try_into().unwrap());
            let end = at + usize::try_from(length).unwrap();
            if bytes.len() < end {
                return;
            }
            if !*is_first {
                sent.letters.push(char::from(bytes[0]));
            }
            *is_first = false;
            bytes.drain(..end);
        }
    }

    async fn relay(self, node: TcpStream, engine: UnixStream) {
        let (mut from_node, mut to_node) = node.into_split();
        let (mut from_engine, mut to_engine) = engine.into_split();
        let seen = self.clone();
        let there = async move {
            let (mut chunk, mut bytes, mut is_first) = ([0; 65536], Vec::new(), true);
            while let Ok(count @ 1..) = from_node.read(&mut chunk).await {
                bytes.extend_from_slice(&chunk[..count]);
                seen.count_messages(&mut bytes, &mut is_first);
                to_engine.write_all(&chunk[..count]).await.unwrap();
            }
        };
        let back = async move {
            let mut chunk = [0; 65536];
            while let Ok(count @ 1..) = from_engine.read(&mut chunk).await {
                self.0.lock().unwrap().has_response = true;
                if to_node.write_all(&chunk[..count]).await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(there, back);
    }
}

/// A node of the desk's vault with somebody in between.
async fn open_proxied_node(harness: &StoreHarness) -> (PostgresStore, CountingProxy) {
    let url = harness.vault_harness.database().url();
    let (role, place) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let (host, database) = place.split_once('/').unwrap();
    let socket = format!("{}/.s.PGSQL.5432", host.replace("%2F", "/"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let between = CountingProxy::default();
    let seen = between.clone();
    drop(tokio::spawn(async move {
        while let Ok((node, _)) = listener.accept().await {
            let engine = UnixStream::connect(&socket).await.unwrap();
            drop(tokio::spawn(seen.clone().relay(node, engine)));
        }
    }));
    let url = format!("postgres://{role}@127.0.0.1:{port}/{database}");
    let store = PostgresStore::open(PostgresSettings::parse(&url).unwrap()).await.unwrap();
    (store, between)
}

async fn create_two_tokens(harness: &StoreHarness, node: &PostgresStore, at: u8) {
    let writes = [at, at + 1].map(|at| {
        let fingerprint = Some(scrip_seal::Fingerprint([at; 32]));
        let token = without_cvc(TokenRecord { fingerprint, ..token_record(&format!("id-{at}")) });
        let (_, mut batch) = harness.insert_batch(harness.new_insert(token, Deduplicate::Yes));
        batch.writes.remove(0)
    });
    let response = harness.idempotency_record([at; 32]);
    let render: scrip_core::token::BuildIdempotencyRecord = Box::new(move |_| Some(response));
    let batch = TokenBatch { writes: Vec::<TokenWrite>::from(writes), build_record: Some(render) };
    let written = node.write_tokens(harness.lookup_permit(), batch).await.unwrap();
    assert_eq!(written, BatchOutcome::Written(vec![WriteOutcome::New, WriteOutcome::New]));
}

/// On one thread, where all that is sent together is handed over before any of it goes.
#[tokio::test]
async fn create_and_read_take_the_minimum_of_round_trips() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let (node, between) = open_proxied_node(&harness).await;
    let access = || ReadLogBatch {
        tenant: harness.caller.tenant().id,
        audit: harness.audit(Operation::GetToken),
        entries: vec![ReadLogEntry::new("id-1".to_owned(), "read")],
    };
    let read = async || {
        let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        node.find_token(lookup, &token_id("id-1"), harness.now()).await.unwrap().unwrap()
    };
    create_two_tokens(&harness, &node, 1).await;
    read().await;
    node.append_read_log(access()).await.unwrap();
    assert!(between.take().1.contains('P'), "statements are prepared the first time");
    let trips = |expected: usize, what: &str| {
        let (trips, letters) = between.take();
        assert_eq!((trips, letters.contains('P')), (expected, false), "{what}: {letters}");
    };
    create_two_tokens(&harness, &node, 3).await;
    trips(2, "a create with an answer, of two tokens");
    read().await;
    trips(1, "a read");
    node.append_read_log(access()).await.unwrap();
    trips(2, "the record of a read");
}
