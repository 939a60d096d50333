//! Calls through a proxy.

use std::{ops::Range, sync::Arc};

use anyhow::ensure;

use crate::harness::{
    nginx::UPSTREAM_BODY,
    random::XorshiftRandom,
    script::{ID_PLACEHOLDER, IdText, RequestScript, find_range, overwrite},
};

/// Sends the same charge, with another token each time if it names one.
#[derive(Debug)]
pub(crate) struct CallScript {
    request: Vec<u8>,
    id_ranges: Vec<Range<usize>>,
    ids: Arc<Vec<IdText>>,
    random: XorshiftRandom,
}

impl CallScript {
    /// A charge that names one token in three expressions.
    pub(crate) fn with_token(headers: &str, ids: &Arc<Vec<IdText>>, seed: u64) -> Self {
        let value = |path: &str| format!("{{{{ {ID_PLACEHOLDER} | json: '$.{path}' }}}}");
        let (number, month) = (value("number"), value("expiration_month"));
        let year = value("expiration_year");
        let body = charge(&number, &month, &year);
        let mut script = Self::new(headers, &body, seed);
        script.ids = Arc::clone(ids);
        script
    }

    /// The same charge without an expression.
    pub(crate) fn without_expression(headers: &str, seed: u64) -> Self {
        Self::new(headers, &charge("4242424242424242", "12", "2030"), seed)
    }

    fn new(headers: &str, body: &str, seed: u64) -> Self {
        let request = format!(
            "POST /proxy/charges HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n\
             Accept: */*\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n\
             {body}",
            body.len()
        );
        let (mut id_ranges, mut start) = (Vec::new(), 0_usize);
        while let Some(range) = request.get(start..).and_then(|it| find_range(it, ID_PLACEHOLDER)) {
            let range = start.saturating_add(range.start)..start.saturating_add(range.end);
            start = range.end;
            id_ranges.push(range);
        }
        let random = XorshiftRandom::new(seed);
        Self { request: request.into_bytes(), id_ranges, ids: Arc::default(), random }
    }
}

fn charge(number: &str, month: &str, year: &str) -> String {
    format!(
        "{{\"amount\":1999,\"currency\":\"EUR\",\"reference\":\"order-4711\",\"capture\":true,\
         \"card\":{{\"number\":\"{number}\",\"expiration_month\":\"{month}\",\
         \"expiration_year\":\"{year}\",\"holder\":\"A. Sample\"}}}}"
    )
}

impl RequestScript for CallScript {
    fn next_request(&mut self) -> &[u8] {
        if let Some(id) = self.random.pick(&self.ids) {
            for range in &self.id_ranges {
                overwrite(&mut self.request, range, id);
            }
        }
        &self.request
    }

    fn handle_response(&mut self, body: &[u8]) -> anyhow::Result<()> {
        ensure!(body == UPSTREAM_BODY.as_bytes(), "a response is not that of the upstream");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::CallScript;
    use crate::harness::script::RequestScript;

    #[test]
    fn every_expression_of_a_call_names_the_token() {
        let ids = Arc::new(vec![[b'a'; 36]]);
        let mut script = CallScript::with_token("X: y\r\n", &ids, 0);
        let text = String::from_utf8(script.next_request().to_vec()).unwrap();
        assert_eq!(text.matches(&"a".repeat(36)).count(), 3);
        assert!(!text.contains("IIII"));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }
}
