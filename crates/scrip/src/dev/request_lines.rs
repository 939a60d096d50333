//! One line for each request, on the terminal of a developer. A line never contains a query string,
//! and no part of a path that may be a value.

use std::{
    io::{self, IsTerminal},
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

use anyhow::Context;
use scrip_api::routes::ROUTES;
use scrip_core::{card::contains_card_number, types::id::is_random_uuid};
use scrip_operator::output::replace_control_characters;
use scrip_server::request_log::{CompletedRequest, RequestLog};

use crate::commands::output::print_output;

/// Lines that wait for the terminal. Further lines are dropped, because no request may wait.
const LINES_MAX: usize = 1000;
const WORD_CHARS_MAX: usize = 30;
const HIDDEN: &str = "…";

/// Whether lines have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineStyle {
    Plain,
    Coloured,
}

#[derive(Debug)]
pub(super) struct RequestLines {
    style: LineStyle,
    lines: SyncSender<String>,
}

impl RequestLines {
    /// Starts the thread that prints the lines.
    pub(super) fn start() -> anyhow::Result<Arc<dyn RequestLog>> {
        let style = match io::stdout().is_terminal() {
            true => LineStyle::Coloured,
            false => LineStyle::Plain,
        };
        let (lines, waiting_lines) = sync_channel::<String>(LINES_MAX);
        let print_lines = move || waiting_lines.iter().try_for_each(|it| print_output(&it));
        let thread = thread::Builder::new().name("request-lines".to_owned());
        thread.spawn(print_lines).context("starting the thread that prints requests failed")?;
        Ok(Arc::new(Self { style, lines }))
    }
}

impl RequestLog for RequestLines {
    fn record(&self, request: &CompletedRequest<'_>) {
        drop(self.lines.try_send(format_line(request, self.style)));
    }
}

fn format_line(request: &CompletedRequest<'_>, style: LineStyle) -> String {
    let CompletedRequest { method, path, status, duration, reason } = request;
    let is_standard = method.as_str().bytes().all(|it| it.is_ascii_uppercase());
    let method = if is_standard { method.as_str() } else { HIDDEN };
    let status_text = match style {
        LineStyle::Plain => status.to_string(),
        LineStyle::Coloured => format!("\u{1b}[{}m{status}\u{1b}[0m", status_colour(*status)),
    };
    let tenths = duration.as_micros() / 100;
    let reason = reason.map(|it| replace_control_characters(it.text(), false)).unwrap_or_default();
    let line = format!(
        "  {method:<6} {path:<48} {status_text} {time:>9}  {reason}",
        path = printable_path(path),
        time = format!("{}.{} ms", tenths / 10, tenths % 10),
    );
    format!("{}\n", line.trim_end())
}

/// Green, cyan, yellow or red.
fn status_colour(status: u16) -> u8 {
    match status {
        0..300 => 32,
        300..400 => 36,
        400..500 => 33,
        500.. => 31,
    }
}

/// A path of the API consists of words of the route table and of ids. An id is printed only if it is
/// a random UUID, because the id of a token may be made from its data. The path below `/proxy` belongs
/// to the destination.
fn printable_path(path: &str) -> String {
    let segments: Vec<_> = path.split('/').skip(1).collect();
    let is_literal = |segment: &str| {
        ROUTES.iter().any(|it| it.path.split('/').any(|it| it == segment && !it.starts_with('{')))
    };
    let first = segments.first().copied().unwrap_or_default();
    if first == "proxy" {
        return if segments.len() > 1 { format!("/proxy/{HIDDEN}") } else { "/proxy".to_owned() };
    }
    let is_api = is_literal(first);
    let is_printable = |segment: &str| {
        is_literal(segment) || is_random_uuid(segment) || (!is_api && is_word(segment))
    };
    let print = |it: &&str| format!("/{}", if is_printable(it) { it } else { HIDDEN });
    segments.iter().map(print).collect()
}

/// A part of the path of a page or file, or a misspelt name.
fn is_word(segment: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    segment.len() <= WORD_CHARS_MAX
        && segment.bytes().all(is_plain)
        && segment.bytes().filter(u8::is_ascii_digit).count() <= 3
        && !contains_card_number(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_paths_contain_no_values() {
        let cases = [
            ("/", "/"),
            ("/tokens", "/tokens"),
            ("/tokens/search", "/tokens/search"),
            ("/token", "/token"),
            ("/tokens/4242424242424242", "/tokens/…"),
            ("/tokens/john-smith", "/tokens/…"),
            (
                "/tokens/3f2b1c52-8c0b-4c70-a1a5-0f1d2f6c7c11",
                "/tokens/3f2b1c52-8c0b-4c70-a1a5-0f1d2f6c7c11",
            ),
            ("/tokens/42424242-4242-4242-0000-000000000000", "/tokens/…"),
            ("/tokens/x/y", "/tokens/…/…"),
            ("/proxy", "/proxy"),
            ("/proxy/v1/cards/4242424242424242", "/proxy/…"),
            ("/demo/checkout.js", "/demo/checkout.js"),
            ("/.well-known/webhooks.v1.key", "/.well-known/webhooks.v1.key"),
            ("/4242424242424242", "/…"),
            ("/key_test_us_pvt_A1b2", "/…"),
        ];
        for (path, expected) in cases {
            assert_eq!(printable_path(path), expected);
        }
    }

    #[test]
    fn only_statuses_have_colours() {
        let colours = [(204, 32), (304, 36), (404, 33), (503, 31)];
        for (status, colour) in colours {
            assert_eq!(status_colour(status), colour, "{status}");
        }
    }
}
