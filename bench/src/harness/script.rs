//! What a connection sends: whole requests, formatted once, with the varying bytes written over.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, ensure};

use crate::harness::chance::Chance;

/// The text of a token's id: a UUID.
pub(crate) type IdText = [u8; 36];

const NUMBER_MARK: &str = "NNNNNNNNNNNNNNNN";
const ID_MARK: &str = "IIIIIIII-IIII-IIII-IIII-IIIIIIIIIIII";

/// The requests of one connection, one after another.
pub(crate) trait Script: Send + 'static {
    fn next(&mut self) -> &[u8];
    fn answered(&mut self, body: &[u8]) -> anyhow::Result<()>;
}

/// Creates card tokens with numbers that never repeat, and keeps the ids.
#[derive(Debug)]
pub(crate) struct Creates {
    request: Vec<u8>,
    number_at: Range<usize>,
    idempotency_key_at: Option<Range<usize>>,
    serial: Arc<AtomicU64>,
    chance: Chance,
    pub(crate) ids: Vec<IdText>,
}

/// What a create asks for besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Besides {
    Nothing,
    IdempotencyKey,
    FourIndexes,
}

/// All of them differ from card to card.
const FOUR_INDEXES: &str = r#","search_indexes":["{{ data.number }}","{{ data.number | last4 }}",
"{{ data.number | slice: 4, 12 }}","{{ data.number | append: data.expiration_month }}"]"#;

impl Creates {
    pub(crate) fn new(
        api_key: &str,
        besides: Besides,
        serial: &Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let body = format!(
            "{{\"type\":\"card\",\"data\":{{\"number\":\"{NUMBER_MARK}\",\
             \"expiration_month\":12,\"expiration_year\":2030,\"cvc\":\"123\"}}{}}}",
            if besides == Besides::FourIndexes { FOUR_INDEXES } else { "" }
        );
        let idempotency_header = match besides {
            Besides::IdempotencyKey => format!("BT-IDEMPOTENCY-KEY: {ID_MARK}\r\n"),
            Besides::Nothing | Besides::FourIndexes => String::new(),
        };
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\
             Content-Type: application/json\r\n{idempotency_header}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // A number of its own seeds each script, so that no two make the same idempotency keys.
        let seed = serial.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            number_at: find(&request, NUMBER_MARK).context("the request has no number")?,
            idempotency_key_at: find(&request, ID_MARK),
            request: request.into_bytes(),
            serial: Arc::clone(serial),
            chance: Chance::new(seed),
            ids: Vec::new(),
        })
    }
}

impl Creates {
    /// The same, of tokens that expire then.
    pub(crate) fn expiring(
        api_key: &str,
        expires_at: &str,
        serial: &Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let mut script = Self::new(api_key, Besides::Nothing, serial)?;
        let request = String::from_utf8(script.request)?;
        let (head, body) = request.split_once("\r\n\r\n").context("the request has no body")?;
        let length = format!("Content-Length: {}", body.len());
        let body = body.replacen('{', &format!("{{\"expires_at\":\"{expires_at}\","), 1);
        let head = head.replace(&length, &format!("Content-Length: {}", body.len()));
        let request = format!("{head}\r\n\r\n{body}");
        script.number_at = find(&request, NUMBER_MARK).context("the request has no number")?;
        script.request = request.into_bytes();
        Ok(script)
    }
}

impl Script for Creates {
    fn next(&mut self) -> &[u8] {
        let number = card_number(self.serial.fetch_add(1, Ordering::Relaxed));
        patch(&mut self.request, &self.number_at, &number);
        if let Some(place) = &self.idempotency_key_at {
            let key = self.chance.uuid().to_string();
            patch(&mut self.request, place, key.as_bytes());
        }
        &self.request
    }

    fn answered(&mut self, body: &[u8]) -> anyhow::Result<()> {
        const START: &[u8] = b"{\"id\":\"";
        let id = body.strip_prefix(START).and_then(|it| it.first_chunk());
        self.ids.push(*id.context("an answer does not start with the id")?);
        Ok(())
    }
}

/// Sends the same create again and again.
#[derive(Debug)]
pub(crate) struct Repeated(Vec<u8>);

impl Repeated {
    pub(crate) fn create(api_key: &str, body: &str) -> Self {
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self(request.into_bytes())
    }
}

impl Script for Repeated {
    fn next(&mut self) -> &[u8] {
        &self.0
    }

    fn answered(&mut self, _body: &[u8]) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Reads tokens at random out of those there are.
#[derive(Debug)]
pub(crate) struct Reads {
    request: Vec<u8>,
    id_at: Range<usize>,
    ids: Arc<Vec<IdText>>,
    chance: Chance,
}

impl Reads {
    pub(crate) fn new(api_key: &str, ids: &Arc<Vec<IdText>>, seed: u64) -> anyhow::Result<Self> {
        ensure!(!ids.is_empty(), "there are no tokens to read");
        let request = format!(
            "GET /tokens/{ID_MARK} HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\r\n"
        );
        let id_at = find(&request, ID_MARK).context("the request has no id")?;
        let request = request.into_bytes();
        Ok(Self { request, id_at, ids: Arc::clone(ids), chance: Chance::new(seed) })
    }
}

impl Script for Reads {
    fn next(&mut self) -> &[u8] {
        if let Some(id) = self.chance.pick(&self.ids) {
            patch(&mut self.request, &self.id_at, id);
        }
        &self.request
    }

    fn answered(&mut self, _body: &[u8]) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Turns the pages of a list, from the first to the last and again.
#[derive(Debug)]
pub(crate) struct Pages {
    api_key: String,
    request: Vec<u8>,
}

impl Pages {
    pub(crate) fn new(api_key: &str) -> Self {
        let mut pages = Self { api_key: api_key.to_owned(), request: Vec::new() };
        pages.ask("");
        pages
    }

    fn ask(&mut self, start: &str) {
        let Self { api_key, .. } = self;
        let list = "GET /v2/tokens?container=/pci/&size=20";
        let head = format!(" HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\r\n");
        self.request = format!("{list}{start}{head}").into_bytes();
    }
}

impl Script for Pages {
    fn next(&mut self) -> &[u8] {
        &self.request
    }

    fn answered(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let body = std::str::from_utf8(body)?;
        let (_, rest) = body.split_once("\"next\":").context("an answer has no next")?;
        let next = rest.strip_prefix('"').and_then(|it| it.split('"').next());
        let start = next.map(|it| format!("&start={it}")).unwrap_or_default();
        self.ask(&start);
        Ok(())
    }
}

fn find(text: &str, mark: &str) -> Option<Range<usize>> {
    text.find(mark).map(|start| start..start.saturating_add(mark.len()))
}

fn patch(request: &mut [u8], place: &Range<usize>, with: &[u8]) {
    if let Some(to) = request.get_mut(place.clone()) {
        for (to, from) in to.iter_mut().zip(with) {
            *to = *from;
        }
    }
}

/// "4", fourteen digits of the serial, and the Luhn digit.
fn card_number(serial: u64) -> [u8; 16] {
    let mut number = [b'0'; 16];
    let (mut rest, mut sum) = (400_000_000_000_000_u64.saturating_add(serial), 0_u64);
    let mut double = true;
    for place in number.iter_mut().rev().skip(1) {
        let digit = rest % 10;
        rest /= 10;
        *place = ascii(digit);
        let weighed = if double { digit.saturating_mul(2) } else { digit };
        sum = sum.saturating_add(weighed / 10).saturating_add(weighed % 10);
        double = !double;
    }
    if let Some(last) = number.last_mut() {
        *last = ascii((10 - sum % 10) % 10);
    }
    number
}

fn ascii(digit: u64) -> u8 {
    u8::try_from(digit).map_or(b'0', |it| b'0'.saturating_add(it))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicU64};

    use super::{Besides, Creates, Script, card_number};

    #[test]
    fn numbers_pass_luhn() {
        // Worked by hand: 4+0·14 weighs 8, so the last digit is 2.
        assert_eq!(&card_number(0), b"4000000000000002");
        assert_eq!(&card_number(1), b"4000000000000010");
        assert_eq!(&card_number(24_242_424_242_424), b"4242424242424242");
    }

    #[test]
    fn requests_are_whole() {
        let serial = Arc::new(AtomicU64::new(0));
        let mut script = Creates::new("key", Besides::IdempotencyKey, &serial).unwrap();
        let text = String::from_utf8(script.next().to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(!text.contains("NNNN") && !text.contains("IIII"));
    }
}
