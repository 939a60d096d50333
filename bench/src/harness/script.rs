//! The requests of a connection: formatted once, with the variable bytes overwritten for each
//! request.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, ensure};

use crate::harness::random::XorshiftRandom;

/// The id of a token: a UUID as text.
pub(crate) type IdText = [u8; 36];

const NUMBER_PLACEHOLDER: &str = "NNNNNNNNNNNNNNNN";
pub(super) const ID_PLACEHOLDER: &str = "IIIIIIII-IIII-IIII-IIII-IIIIIIIIIIII";

/// The sequence of requests of one connection.
pub(crate) trait RequestScript: Send + 'static {
    fn next_request(&mut self) -> &[u8];
    fn handle_response(&mut self, body: &[u8]) -> anyhow::Result<()>;
}

/// Creates card tokens with unique numbers and collects their ids.
#[derive(Debug)]
pub(crate) struct CreateScript {
    request: Vec<u8>,
    number_range: Range<usize>,
    idempotency_key_range: Option<Range<usize>>,
    serial: Arc<AtomicU64>,
    random: XorshiftRandom,
    pub(crate) ids: Vec<IdText>,
}

/// Additional parts of a create request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateVariant {
    Plain,
    IdempotencyKey,
    FourIndexes,
}

/// Four indexes with different values for each card.
const FOUR_INDEXES: &str = r#","search_indexes":["{{ data.number }}","{{ data.number | last4 }}",
"{{ data.number | slice: 4, 12 }}","{{ data.number | append: data.expiration_month }}"]"#;

impl CreateScript {
    pub(crate) fn new(
        api_key: &str,
        variant: CreateVariant,
        serial: &Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let body = format!(
            "{{\"type\":\"card\",\"data\":{{\"number\":\"{NUMBER_PLACEHOLDER}\",\
             \"expiration_month\":12,\"expiration_year\":2030,\"cvc\":\"123\"}}{}}}",
            if variant == CreateVariant::FourIndexes { FOUR_INDEXES } else { "" }
        );
        let idempotency_header = match variant {
            CreateVariant::IdempotencyKey => format!("BT-IDEMPOTENCY-KEY: {ID_PLACEHOLDER}\r\n"),
            CreateVariant::Plain | CreateVariant::FourIndexes => String::new(),
        };
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\
             Content-Type: application/json\r\n{idempotency_header}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // A different seed for each script, so that idempotency keys never repeat.
        let seed = serial.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            number_range: find_range(&request, NUMBER_PLACEHOLDER)
                .context("the request has no number")?,
            idempotency_key_range: find_range(&request, ID_PLACEHOLDER),
            request: request.into_bytes(),
            serial: Arc::clone(serial),
            random: XorshiftRandom::new(seed),
            ids: Vec::new(),
        })
    }
}

impl CreateScript {
    /// Creates tokens with this expiry.
    pub(crate) fn with_expiry(
        api_key: &str,
        expires_at: &str,
        serial: &Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let mut script = Self::new(api_key, CreateVariant::Plain, serial)?;
        let request = String::from_utf8(script.request)?;
        let (head, body) = request.split_once("\r\n\r\n").context("the request has no body")?;
        let length = format!("Content-Length: {}", body.len());
        let body = body.replacen('{', &format!("{{\"expires_at\":\"{expires_at}\","), 1);
        let head = head.replace(&length, &format!("Content-Length: {}", body.len()));
        let request = format!("{head}\r\n\r\n{body}");
        script.number_range =
            find_range(&request, NUMBER_PLACEHOLDER).context("the request has no number")?;
        script.request = request.into_bytes();
        Ok(script)
    }
}

impl RequestScript for CreateScript {
    fn next_request(&mut self) -> &[u8] {
        let number = card_number(self.serial.fetch_add(1, Ordering::Relaxed));
        overwrite(&mut self.request, &self.number_range, &number);
        if let Some(range) = &self.idempotency_key_range {
            let key = self.random.uuid().to_string();
            overwrite(&mut self.request, range, key.as_bytes());
        }
        &self.request
    }

    fn handle_response(&mut self, body: &[u8]) -> anyhow::Result<()> {
        const START: &[u8] = b"{\"id\":\"";
        let id = body.strip_prefix(START).and_then(|it| it.first_chunk());
        self.ids.push(*id.context("a response does not start with the id")?);
        Ok(())
    }
}

/// Sends the same create repeatedly.
#[derive(Debug)]
pub(crate) struct RepeatedCreateScript(Vec<u8>);

impl RepeatedCreateScript {
    pub(crate) fn create(api_key: &str, body: &str) -> Self {
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self(request.into_bytes())
    }
}

impl RequestScript for RepeatedCreateScript {
    fn next_request(&mut self) -> &[u8] {
        &self.0
    }

    fn handle_response(&mut self, _body: &[u8]) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Reads random tokens from a list of ids.
#[derive(Debug)]
pub(crate) struct ReadScript {
    request: Vec<u8>,
    id_range: Range<usize>,
    ids: Arc<Vec<IdText>>,
    random: XorshiftRandom,
}

impl ReadScript {
    pub(crate) fn new(api_key: &str, ids: &Arc<Vec<IdText>>, seed: u64) -> anyhow::Result<Self> {
        ensure!(!ids.is_empty(), "there are no tokens to read");
        let request = format!(
            "GET /tokens/{ID_PLACEHOLDER} HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\r\n"
        );
        let id_range = find_range(&request, ID_PLACEHOLDER).context("the request has no id")?;
        let request = request.into_bytes();
        Ok(Self { request, id_range, ids: Arc::clone(ids), random: XorshiftRandom::new(seed) })
    }
}

impl RequestScript for ReadScript {
    fn next_request(&mut self) -> &[u8] {
        if let Some(id) = self.random.pick(&self.ids) {
            overwrite(&mut self.request, &self.id_range, id);
        }
        &self.request
    }

    fn handle_response(&mut self, _body: &[u8]) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Reads all pages of a list, repeatedly from the first to the last.
#[derive(Debug)]
pub(crate) struct ListScript {
    api_key: String,
    request: Vec<u8>,
}

impl ListScript {
    pub(crate) fn new(api_key: &str) -> Self {
        let mut pages = Self { api_key: api_key.to_owned(), request: Vec::new() };
        pages.set_request("");
        pages
    }

    fn set_request(&mut self, start: &str) {
        let Self { api_key, .. } = self;
        let list = "GET /v2/tokens?container=/pci/&size=20";
        let head = format!(" HTTP/1.1\r\nHost: bench\r\nBT-API-KEY: {api_key}\r\n\r\n");
        self.request = format!("{list}{start}{head}").into_bytes();
    }
}

impl RequestScript for ListScript {
    fn next_request(&mut self) -> &[u8] {
        &self.request
    }

    fn handle_response(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let body = std::str::from_utf8(body)?;
        let (_, rest) = body.split_once("\"next\":").context("a response has no next")?;
        let next = rest.strip_prefix('"').and_then(|it| it.split('"').next());
        let start = next.map(|it| format!("&start={it}")).unwrap_or_default();
        self.set_request(&start);
        Ok(())
    }
}

pub(super) fn find_range(text: &str, placeholder: &str) -> Option<Range<usize>> {
    text.find(placeholder).map(|start| start..start.saturating_add(placeholder.len()))
}

pub(super) fn overwrite(request: &mut [u8], range: &Range<usize>, bytes: &[u8]) {
    if let Some(target) = request.get_mut(range.clone()) {
        for (target_byte, byte) in target.iter_mut().zip(bytes) {
            *target_byte = *byte;
        }
    }
}

/// "4", fourteen digits of the serial number, and the Luhn digit.
fn card_number(serial: u64) -> [u8; 16] {
    let mut number = [b'0'; 16];
    let (mut remaining_digits, mut sum) = (400_000_000_000_000_u64.saturating_add(serial), 0_u64);
    let mut is_doubled = true;
    for byte in number.iter_mut().rev().skip(1) {
        let digit = remaining_digits % 10;
        remaining_digits /= 10;
        *byte = ascii(digit);
        let weighted = if is_doubled { digit.saturating_mul(2) } else { digit };
        sum = sum.saturating_add(weighted / 10).saturating_add(weighted % 10);
        is_doubled = !is_doubled;
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

    use super::{CreateScript, CreateVariant, RequestScript, card_number};

    #[test]
    fn generated_card_numbers_pass_luhn() {
        // Calculated by hand: 4+0·14 weighs 8, so the last digit is 2.
        assert_eq!(&card_number(0), b"4000000000000002");
        assert_eq!(&card_number(1), b"4000000000000010");
        assert_eq!(&card_number(24_242_424_242_424), b"4242424242424242");
    }

    #[test]
    fn create_requests_have_no_placeholders_left() {
        let serial = Arc::new(AtomicU64::new(0));
        let mut script = CreateScript::new("key", CreateVariant::IdempotencyKey, &serial).unwrap();
        let text = String::from_utf8(script.next_request().to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(!text.contains("NNNN") && !text.contains("IIII"));
    }
}
