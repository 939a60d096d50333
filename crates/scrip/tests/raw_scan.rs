//! No card number is on disk in clear: not in the database, not in its log, not in a backup, not in
//! the server's own log; in none of the forms in which it might have slipped through.

#![expect(clippy::indexing_slicing, reason = "an absent member of a JSON value reads as null")]

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use aho_corasick::AhoCorasick;
use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_testing::{
    process::{ServerProcess, client::HttpClient, scrip_dev_command, terminate, wait},
    requests::card_number,
};
use serde_json::{Value, json};

/// The program under test.
const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

const NUMBERS: u64 = 10_000;
const CLIENTS: u64 = 8;
const JSON: (&str, &str) = ("Content-Type", "application/json");
const MERGE_PATCH: (&str, &str) = ("Content-Type", "application/merge-patch+json");

/// A number in every form it might have on disk, with the name of the form.
fn encoded_forms(number: &str) -> Vec<(&'static str, Vec<u8>)> {
    let digits: Vec<u8> = number.bytes().map(|it| it - b'0').collect();
    let wide = |place: fn(u8) -> [u8; 2]| number.bytes().flat_map(place).collect();
    // Whole bytes only: with an odd start or an odd length, what fills up the byte is anyone's.
    let packed = |skip: usize| {
        let pairs = digits.get(skip..).unwrap_or_default().chunks_exact(2);
        pairs.map(|it| it.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
    };
    // Characters that depend on the number alone, wherever it stands in what was encoded.
    let encoded = |before: usize| {
        let text = [vec![0; before], number.as_bytes().to_vec()].concat();
        let text = STANDARD.encode(&text).into_bytes();
        let whole = (before * 8).div_ceil(6)..(before + number.len()) * 8 / 6;
        text.get(whole).unwrap_or_default().to_vec()
    };
    vec![
        ("ASCII", number.as_bytes().to_vec()),
        ("UTF-16LE", wide(|it| [it, 0])),
        ("UTF-16BE", wide(|it| [0, it])),
        ("BCD", packed(0)),
        ("BCD from a half byte", packed(1)),
        ("base64", encoded(0)),
        ("base64 after one byte", encoded(1)),
        ("base64 after two bytes", encoded(2)),
    ]
}

struct NumberScan {
    names: Vec<&'static str>,
    finder: AhoCorasick,
}

impl NumberScan {
    fn new(numbers: impl Iterator<Item = String>) -> Self {
        let (names, patterns): (Vec<_>, Vec<_>) = numbers.flat_map(|it| encoded_forms(&it)).unzip();
        Self { names, finder: AhoCorasick::new(patterns).expect("the patterns fit") }
    }

    /// The forms found. Never the number: this goes into a test's output.
    fn find(&self, bytes: &[u8]) -> Vec<&'static str> {
        let matches = self.finder.find_overlapping_iter(bytes);
        matches.filter_map(|it| self.names.get(it.pattern().as_usize()).copied()).collect()
    }

    /// How many bytes were looked at; every file of the folder is clean.
    fn scan_folder(&self, folder: &Path) -> usize {
        let mut seen = 0;
        for entry in fs::read_dir(folder).expect("the folder reads") {
            let path = entry.expect("the folder reads").path();
            if !path.is_file() {
                // The control socket holds nothing.
                continue;
            }
            let bytes = fs::read(&path).expect("the file reads");
            let found = self.find(&bytes);
            assert!(found.is_empty(), "{} holds {found:?}", path.display());
            seen += bytes.len();
        }
        seen
    }
}

/// Sends every number of one client in one way or another; how many tokens were made.
fn send_numbers(server: &ServerProcess, client: u64) -> usize {
    let mut connection = HttpClient::connect(&server.server_address).expect("it listens");
    let mut created = 0;
    for place in (client..NUMBERS).step_by(usize::try_from(CLIENTS).expect("a small number")) {
        let number = card_number(place);
        let key = format!("key-{place}");
        let with_key = [JSON, ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let headers = if place.is_multiple_of(3) { &with_key[..] } else { &[JSON] };
        let (body, expected) = request_body(place, &number);
        let response = connection.send("POST /tokens", headers, &body).expect("an answer");
        assert_eq!(response.status, expected, "{}", place % 20);
        if response.status != 201 {
            assert!(!response.body.contains(&number), "a refusal quotes nothing");
            continue;
        }
        created += 1;
        if place.is_multiple_of(11) {
            patch_token(&mut connection, &response.body, place);
        }
    }
    created
}

/// The number as a card, most of the time; else where one does not look for it.
fn request_body(number_index: u64, number: &str) -> (String, u16) {
    let cvc = format!("{:03}", number_index % 1000);
    let card =
        json!({ "number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": cvc });
    let metadata = json!({ "order": number_index.to_string() });
    match number_index % 20 {
        0 => (json!({ "type": "card_number", "data": number }).to_string(), 201),
        1 => {
            let nested = json!({ "a": [{ "deep": { "pan": number } }, number] });
            (json!({ "type": "token", "data": nested }).to_string(), 201)
        }
        2 => {
            let indexes = ["{{ data.number }}"];
            let body = json!({ "type": "card", "data": card, "search_indexes": indexes });
            (body.to_string(), 201)
        }
        3 => {
            let wrong = json!({ "number": number, "expiration_month": 13 });
            (json!({ "type": "card", "data": wrong }).to_string(), 400)
        }
        4 => (format!(r#"{{"type":"card","data":{{"number":"{number}""#), 400),
        5 => (format!(r#"{{"type":"card","{number}":{number},"data":{number}}}"#), 400),
        6 => (json!({ "type": number, "data": card }).to_string(), 400),
        // A card number is no id, given or computed.
        7 => (json!({ "type": "card", "data": card, "id": number }).to_string(), 400),
        _ => (json!({ "type": "card", "data": card, "metadata": metadata }).to_string(), 201),
    }
}

fn patch_token(connection: &mut HttpClient, created: &str, number_index: u64) {
    let created: Value = serde_json::from_str(created).expect("it is JSON");
    let line = format!("PATCH /tokens/{}", created["id"].as_str().expect("an id"));
    // From a series of its own, which is scanned for too.
    let data = match created["type"].as_str() {
        Some("card") => json!({ "number": card_number(NUMBERS + number_index) }),
        _ => json!(card_number(NUMBERS + number_index)),
    };
    let body = json!({ "data": data }).to_string();
    let response = connection.send(&line, &[MERGE_PATCH], &body).expect("an answer");
    assert_eq!(response.status, 200);
    let wrong = json!({ "data": card_number(NUMBERS + number_index), "metadata": 1 }).to_string();
    let response = connection.send(&line, &[MERGE_PATCH], &wrong).expect("an answer");
    assert_eq!(response.status, 400);
}

#[test]
fn no_card_number_is_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).expect("a folder");
    let log = File::create(logs.join("stderr")).expect("a file");
    // As talkative as can be.
    let mut server =
        ServerProcess::start(scrip_dev_command(SCRIP, &data).env("SCRIP_LOG", "trace").stderr(log));
    let created: usize = thread::scope(|scope| {
        let server = &server;
        let clients: Vec<_> =
            (0..CLIENTS).map(|it| scope.spawn(move || send_numbers(server, it))).collect();
        clients.into_iter().map(|it| it.join().expect("a client does not panic")).sum()
    });
    assert!(created > 7_000, "{created}");

    let patched = (NUMBERS..2 * NUMBERS).filter(|it| (it - NUMBERS).is_multiple_of(11));
    let scan = NumberScan::new((0..NUMBERS).chain(patched).map(card_number));
    assert!(data.join("scrip.db-wal").metadata().expect("there is a log").len() > 1_000_000);
    let with_wal = scan.scan_folder(&data);
    let backups = folder.path().join("backups");
    let backup = create_backup(&data, &backups);
    let backed_up = scan.scan_folder(&backups);
    terminate(&server.child);
    let status = wait(&mut server.child, Duration::from_secs(15)).expect("it ends");
    assert!(status.success());
    let after_stop = scan.scan_folder(&data);
    let logged = scan.scan_folder(&logs);
    // Each holds something of every request: else there was nothing to find a number in.
    assert!(with_wal > created * 500 && after_stop > created * 500 && logged > created * 50);
    assert!(backed_up > created * 500);
    expect_no_keys(&data, &backup);

    // The control: a number planted in the database is found, in every form.
    let database = fs::read(data.join("scrip.db")).expect("the database reads");
    for original in [database, backup] {
        for (name, bytes) in planted_forms(&card_number(4_321)) {
            let mut copy = original.clone();
            let middle = copy.len() / 2;
            copy.splice(middle..middle + bytes.len(), bytes);
            assert_eq!(scan.find(&copy), [name]);
        }
    }
}

/// Beside the server, into a folder of its own.
fn create_backup(data: &Path, folder: &Path) -> Vec<u8> {
    fs::create_dir(folder).expect("a folder");
    let file = folder.join("backup");
    let mut command = Command::new(SCRIP);
    command.arg("backup").arg(&file).arg("--data-dir").arg(data).env_remove("SCRIP_ROOT_KEY");
    assert!(command.output().expect("it runs").status.success());
    fs::read(file).expect("it reads")
}

/// Neither the root key, as bytes or as text, nor an API key is in a backup.
fn expect_no_keys(data: &Path, backup: &[u8]) {
    let text = fs::read_to_string(data.join("root.key")).expect("there is a root key");
    let bytes = STANDARD.decode(text.trim()).expect("it is base64");
    let keys = fs::read_to_string(data.join("dev-keys.json")).expect("there are keys");
    let keys: Value = serde_json::from_str(&keys).expect("it is JSON");
    let key = keys["keys"]["private"].as_str().expect("a key");
    let halves = bytes.chunks(16).map(<[u8]>::to_vec);
    let secrets: Vec<Vec<u8>> =
        halves.chain([text.trim().as_bytes()[..20].to_vec(), key.as_bytes().to_vec()]).collect();
    let finder = AhoCorasick::new(&secrets).expect("the patterns fit");
    assert_eq!(finder.find_iter(backup).count(), 0);
    // The control: each of them is found where it was put.
    for secret in secrets {
        let planted = [&backup[..1000], &secret, &backup[1000..]].concat();
        assert_eq!(finder.find_iter(&planted).count(), 1);
    }
}

/// The forms as others make them, so that a mistake in ours would show.
fn planted_forms(number: &str) -> Vec<(&'static str, Vec<u8>)> {
    let text = |before: &str| STANDARD.encode(format!("{before}{number}\"}}")).into_bytes();
    let digits = u128::from_str_radix(number, 16).expect("digits are hexadecimal digits");
    vec![
        ("ASCII", format!("{{\"number\":\"{number}\"}}").into_bytes()),
        // No zero before or after it: else it would also be the other one, a byte further on.
        (
            "UTF-16LE",
            [1].into_iter().chain(number.encode_utf16().flat_map(u16::to_le_bytes)).collect(),
        ),
        ("UTF-16BE", number.encode_utf16().flat_map(u16::to_be_bytes).chain([1]).collect()),
        ("BCD", digits.to_be_bytes().to_vec()),
        ("BCD from a half byte", (digits << 4 | 0xf).to_be_bytes().to_vec()),
        ("base64", text("abc")),
        ("base64 after one byte", text("a")),
        ("base64 after two bytes", text("ab")),
    ]
}
