//! Receivers of webhooks in the process of the benchmark.
//!
//! A receiver does as little work as possible, because it shares the machine with the measured
//! server: it verifies no signature, and parses only the length of a request and the id of its event.

use std::{
    collections::HashSet,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use uuid::Uuid;

use crate::harness::clock::{now, unix_ms};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The milliseconds since 1970 are the first 48 bits of an event id.
const RANDOM_BITS: u32 = 80;

/// A server that counts the events it receives, and answers 200 at once. It ends when this value is
/// dropped.
#[derive(Debug)]
pub(crate) struct WebhookReceiver {
    pub(crate) url: String,
    events: Arc<Mutex<ReceivedEvents>>,
    _listener: JoinSet<()>,
}

#[derive(Debug, Default)]
struct ReceivedEvents {
    ids: HashSet<Uuid>,
    repetitions: u64,
    /// Requests that get an answer. Later ones are read and not answered.
    answers_left: u64,
    /// From the time of an event to its arrival.
    ages_us: Vec<u32>,
}

impl WebhookReceiver {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/events", listener.local_addr()?);
        let events = ReceivedEvents { answers_left: u64::MAX, ..ReceivedEvents::default() };
        let events = Arc::new(Mutex::new(events));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&events)));
        Ok(Self { url, events, _listener: tasks })
    }

    /// The number of events so far. An event that arrives again is not counted.
    pub(crate) fn received(&self) -> u64 {
        u64::try_from(lock(&self.events).ids.len()).unwrap_or(u64::MAX)
    }

    /// The number of deliveries of events that had arrived before.
    pub(crate) fn repetitions(&self) -> u64 {
        lock(&self.events).repetitions
    }

    /// Answers this many more requests, and hangs in all later ones.
    pub(crate) fn hang_after(&self, answers: u64) {
        lock(&self.events).answers_left = answers;
    }

    /// Takes the ages of the events since the last call, in microseconds.
    pub(crate) fn take_ages(&self) -> Vec<u32> {
        std::mem::take(&mut lock(&self.events).ages_us)
    }

    /// Waits until this many events have arrived in total, or until none has arrived for a while.
    /// Returns how many have arrived.
    pub(crate) async fn wait_for(&self, total: u64, silence_max: Duration) -> u64 {
        let (mut count, mut changed_at) = (self.received(), now());
        while count < total && changed_at.elapsed() < silence_max {
            sleep(POLL_INTERVAL).await;
            let received = self.received();
            if received != count {
                (count, changed_at) = (received, now());
            }
        }
        count
    }
}

fn lock(events: &Mutex<ReceivedEvents>) -> MutexGuard<'_, ReceivedEvents> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReceivedEvents {
    /// Returns whether the request gets an answer.
    fn record(&mut self, id: Uuid, arrived_ms: u64) -> bool {
        if self.ids.insert(id) {
            let event_ms = u64::try_from(id.as_u128() >> RANDOM_BITS).unwrap_or(u64::MAX);
            let age_us = arrived_ms.saturating_sub(event_ms).saturating_mul(1000);
            self.ages_us.push(u32::try_from(age_us).unwrap_or(u32::MAX));
        } else {
            self.repetitions = self.repetitions.saturating_add(1);
        }
        let is_answered = self.answers_left > 0;
        self.answers_left = self.answers_left.saturating_sub(1);
        is_answered
    }
}

async fn accept(listener: TcpListener, events: Arc<Mutex<ReceivedEvents>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let events = Arc::clone(&events);
        // A failure shows as an event that does not arrive.
        connections.spawn(async move { drop(receive(stream, &events).await) });
        while connections.try_join_next().is_some() {}
    }
}

async fn receive(mut stream: TcpStream, events: &Mutex<ReceivedEvents>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let Some(head_length) = buffer.windows(4).position(|it| it == b"\r\n\r\n") else {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let (id, body_length) = parse_head(buffer.get(..head_length).unwrap_or_default())?;
        let request_length = head_length.saturating_add(4).saturating_add(body_length);
        while buffer.len() < request_length {
            ensure!(stream.read_buf(&mut buffer).await? > 0, "a request is incomplete");
        }
        buffer.drain(..request_length);
        let is_answered = lock(events).record(id, unix_ms());
        if is_answered {
            stream.write_all(ANSWER).await?;
        }
    }
}

/// Parses the id of the event and the length of the body.
fn parse_head(head: &[u8]) -> anyhow::Result<(Uuid, usize)> {
    let head = std::str::from_utf8(head)?;
    let value = |wanted: &str| {
        let headers = head.split("\r\n").filter_map(|it| it.split_once(':'));
        let mut values = headers.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        values.next().map(|(_, value)| value.trim())
    };
    let id = value("webhook-id").context("a request has no event id")?;
    let length = value("content-length").context("a request has no length")?;
    Ok((Uuid::try_parse(id)?, length.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    #[test]
    fn id_and_length_of_a_delivery_are_parsed() {
        let head = format!("POST /events HTTP/1.1\r\nWebhook-Id: {ID}\r\ncontent-length: 12");
        let (id, length) = parse_head(head.as_bytes()).unwrap();
        assert_eq!((id.to_string().as_str(), length), (ID, 12));
        assert!(parse_head(b"POST /events HTTP/1.1\r\ncontent-length: 12").is_err());
    }

    #[test]
    fn age_of_an_event_is_counted_from_the_time_in_its_id_and_only_once() {
        let (id, mut events) = (Uuid::try_parse(ID).unwrap(), ReceivedEvents::default());
        let event_ms = 0x0189_0a5d_ac96;
        events.record(id, event_ms + 7);
        events.record(id, event_ms + 9);
        assert_eq!((events.ages_us.as_slice(), events.repetitions), (&[7000][..], 1));
    }

    #[tokio::test]
    async fn deliveries_on_one_connection_are_all_counted_and_answered_until_the_receiver_hangs() {
        let receiver = WebhookReceiver::start().await.unwrap();
        receiver.hang_after(2);
        let address = receiver.url.strip_prefix("http://").unwrap().strip_suffix("/events");
        let mut stream = TcpStream::connect(address.unwrap()).await.unwrap();
        for (last_digit, is_answered) in [("7", true), ("8", true), ("9", false)] {
            let id = format!("{}{last_digit}", ID.strip_suffix('7').unwrap());
            let request = format!(
                "POST /events HTTP/1.1\r\nwebhook-id: {id}\r\nContent-Length: 2\r\n\r\n{{}}"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            if is_answered {
                let mut answer = vec![0; ANSWER.len()];
                stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(answer, ANSWER);
            }
        }
        assert_eq!(receiver.wait_for(3, Duration::from_secs(5)).await, 3);
        let silence = tokio::time::timeout(Duration::from_millis(50), stream.read_u8()).await;
        assert!(silence.is_err(), "a receiver that hangs answered");
    }
}
