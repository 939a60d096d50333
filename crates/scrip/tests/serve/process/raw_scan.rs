//! No card number is on disk in clear text, in any encoding: not in the database, its WAL, a backup
//! or the server log.

mod proxied_cards;

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

use crate::SCRIP;

const NUMBERS: u64 = 10_000;
const CLIENTS: u64 = 8;
const JSON: (&str, &str) = ("Content-Type", "application/json");
const MERGE_PATCH: (&str, &str) = ("Content-Type", "application/merge-patch+json");

/// Returns a number in every form that it might have on disk, with the name of the form.
fn encoded_forms(number: &str) -> Vec<(&'static str, Vec<u8>)> {
    let digits: Vec<u8> = number.bytes().map(|it| it - b'0').collect();
    let encode_wide = |encode: fn(u8) -> [u8; 2]| number.bytes().flat_map(encode).collect();
    // Use whole bytes only: with an odd start or length, the other half of a byte is arbitrary.
    let encode_packed = |skip: usize| {
        let pairs = digits.get(skip..).unwrap_or_default().chunks_exact(2);
        pairs.map(|it| it.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
    };
    // Use only the characters that depend on the number alone, at any offset in the encoded data.
    let encode_base64 = |bytes_before: usize| {
        let text = [vec![0; bytes_before], number.as_bytes().to_vec()].concat();
        let text = STANDARD.encode(&text).into_bytes();
        let whole_characters =
            (bytes_before * 8).div_ceil(6)..(bytes_before + number.len()) * 8 / 6;
        text.get(whole_characters).unwrap_or_default().to_vec()
    };
    vec![
        ("ASCII", number.as_bytes().to_vec()),
        ("UTF-16LE", encode_wide(|it| [it, 0])),
        ("UTF-16BE", encode_wide(|it| [0, it])),
        ("BCD", encode_packed(0)),
        ("BCD from a half byte", encode_packed(1)),
        ("base64", encode_base64(0)),
        ("base64 after one byte", encode_base64(1)),
        ("base64 after two bytes", encode_base64(2)),
    ]
}

struct NumberScan {
    names: Vec<&'static str>,
    finder: AhoCorasick,
}

impl NumberScan {
    fn new(numbers: impl Iterator<Item = String>) -> Self {
        let (names, patterns): (Vec<_>, Vec<_>) = numbers.flat_map(|it| encoded_forms(&it)).unzip();
        Self { names, finder: AhoCorasick::new(patterns).expect("build the pattern matcher") }
    }

    /// Returns the names of the forms found. The result never contains the number, because it is
    /// printed.
    fn find(&self, bytes: &[u8]) -> Vec<&'static str> {
        let matches = self.finder.find_overlapping_iter(bytes);
        matches.filter_map(|it| self.names.get(it.pattern().as_usize()).copied()).collect()
    }

    /// Scans every file of the folder and returns the number of bytes. Panics if a file contains a
    /// number.
    fn scan_folder(&self, folder: &Path) -> usize {
        let mut byte_count = 0;
        for entry in fs::read_dir(folder).expect("read the folder") {
            let path = entry.expect("read the folder").path();
            if !path.is_file() {
                // The control socket has no contents.
                continue;
            }
            let bytes = fs::read(&path).expect("read the file");
            let found_forms = self.find(&bytes);
            assert!(found_forms.is_empty(), "{} contains {found_forms:?}", path.display());
            byte_count += bytes.len();
        }
        byte_count
    }
}

/// Sends the numbers of one client in various requests. Returns the number of created tokens.
fn send_numbers(server: &ServerProcess, client: u64) -> usize {
    let mut connection = HttpClient::connect(&server.server_address).expect("the server listens");
    let mut created = 0;
    for number_index in
        (client..NUMBERS).step_by(usize::try_from(CLIENTS).expect("the number fits"))
    {
        let number = card_number(number_index);
        let key = format!("key-{number_index}");
        let with_key = [JSON, ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let headers = if number_index.is_multiple_of(3) { &with_key[..] } else { &[JSON] };
        let (body, expected) = request_body(number_index, &number);
        let response = connection.send("POST /tokens", headers, &body).expect("a response");
        assert_eq!(response.status, expected, "{}", number_index % 20);
        if response.status != 201 {
            assert!(!response.body.contains(&number), "an error repeats the number");
            continue;
        }
        created += 1;
        if number_index.is_multiple_of(11) {
            patch_token(&mut connection, &response.body, number_index);
        }
    }
    created
}

/// Mostly a card with the number, otherwise the number in an unexpected position.
fn request_body(number_index: u64, number: &str) -> (String, u16) {
    let cvc = format!("{:03}", number_index % 1000);
    let card =
        json!({ "number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": cvc });
    let metadata = json!({ "order": number_index.to_string() });
    match number_index % 20 {
        0 => (json!({ "type": "card_number", "data": number }).to_string(), 201),
        1 => {
            let nested_data = json!({ "a": [{ "deep": { "pan": number } }, number] });
            (json!({ "type": "token", "data": nested_data }).to_string(), 201)
        }
        2 => {
            let indexes = ["{{ data.number }}"];
            let body = json!({ "type": "card", "data": card, "search_indexes": indexes });
            (body.to_string(), 201)
        }
        3 => {
            let invalid_card = json!({ "number": number, "expiration_month": 13 });
            (json!({ "type": "card", "data": invalid_card }).to_string(), 400)
        }
        4 => (format!(r#"{{"type":"card","data":{{"number":"{number}""#), 400),
        5 => (format!(r#"{{"type":"card","{number}":{number},"data":{number}}}"#), 400),
        6 => (json!({ "type": number, "data": card }).to_string(), 400),
        // A card number is not accepted as an id, given or computed.
        7 => (json!({ "type": "card", "data": card, "id": number }).to_string(), 400),
        _ => (json!({ "type": "card", "data": card, "metadata": metadata }).to_string(), 201),
    }
}

fn patch_token(connection: &mut HttpClient, created: &str, number_index: u64) {
    let created: Value = serde_json::from_str(created).expect("the response is JSON");
    let line = format!("PATCH /tokens/{}", created["id"].as_str().expect("an id"));
    // A number of a separate series, which is also scanned for.
    let data = match created["type"].as_str() {
        Some("card") => json!({ "number": card_number(NUMBERS + number_index) }),
        _ => json!(card_number(NUMBERS + number_index)),
    };
    let body = json!({ "data": data }).to_string();
    let response = connection.send(&line, &[MERGE_PATCH], &body).expect("a response");
    assert_eq!(response.status, 200);
    let invalid_patch =
        json!({ "data": card_number(NUMBERS + number_index), "metadata": 1 }).to_string();
    let response = connection.send(&line, &[MERGE_PATCH], &invalid_patch).expect("a response");
    assert_eq!(response.status, 400);
}

#[test]
fn no_card_number_is_on_disk() {
    let folder = tempfile::tempdir().expect("create a folder");
    let data = folder.path().join("data");
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).expect("create a folder");
    let log = File::create(logs.join("stderr")).expect("a file");
    // The most verbose log level.
    let mut server =
        ServerProcess::start(scrip_dev_command(SCRIP, &data).env("SCRIP_LOG", "trace").stderr(log));
    let created: usize = thread::scope(|scope| {
        let server = &server;
        let clients: Vec<_> =
            (0..CLIENTS).map(|it| scope.spawn(move || send_numbers(server, it))).collect();
        clients.into_iter().map(|it| it.join().expect("a client thread panicked")).sum()
    });
    assert!(created > 7_000, "{created}");

    let patched = (NUMBERS..2 * NUMBERS).filter(|it| (it - NUMBERS).is_multiple_of(11));
    let scan = NumberScan::new((0..NUMBERS).chain(patched).map(card_number));
    assert!(data.join("scrip.db-wal").metadata().expect("the WAL exists").len() > 1_000_000);
    let with_wal = scan.scan_folder(&data);
    let backups = folder.path().join("backups");
    let backup = create_backup(&data, &backups);
    let backed_up = scan.scan_folder(&backups);
    terminate(&server.child);
    let status = wait(&mut server.child, Duration::from_secs(15));
    assert!(status.expect("the server ends").success());
    let after_stop = scan.scan_folder(&data);
    let log_bytes = scan.scan_folder(&logs);
    // Each file contains data of every request. Otherwise the scan would prove nothing.
    assert!(with_wal > created * 500 && after_stop > created * 500 && log_bytes > created * 50);
    assert!(backed_up > created * 500);
    expect_no_keys(&data, &backup);

    // Positive control: a number planted in the database is found in every form.
    let database = fs::read(data.join("scrip.db")).expect("read the database");
    for file_bytes in [database, backup] {
        for (name, bytes) in planted_forms(&card_number(4_321)) {
            let mut altered_bytes = file_bytes.clone();
            let middle = altered_bytes.len() / 2;
            altered_bytes.splice(middle..middle + bytes.len(), bytes);
            assert_eq!(scan.find(&altered_bytes), [name]);
        }
    }
}

/// Creates a backup in a separate folder while the server runs.
fn create_backup(data: &Path, folder: &Path) -> Vec<u8> {
    fs::create_dir(folder).expect("create a folder");
    let file = folder.join("backup");
    let mut command = Command::new(SCRIP);
    command.arg("backup").arg(&file).arg("--data-dir").arg(data).env_remove("SCRIP_ROOT_KEY");
    assert!(command.output().expect("run the command").status.success());
    fs::read(file).expect("read the file")
}

/// Expects that a backup contains neither the root key, as bytes or as text, nor an API key.
fn expect_no_keys(data: &Path, backup: &[u8]) {
    let text = fs::read_to_string(data.join("root.key")).expect("read the root key");
    let bytes = STANDARD.decode(text.trim()).expect("the root key is base64");
    let keys = fs::read_to_string(data.join("dev-keys.json")).expect("read the development keys");
    let keys: Value = serde_json::from_str(&keys).expect("the response is JSON");
    let key = keys["keys"]["private"].as_str().expect("a key");
    let key_halves = bytes.chunks(16).map(<[u8]>::to_vec);
    let secrets: Vec<Vec<u8>> = key_halves
        .chain([text.trim().as_bytes()[..20].to_vec(), key.as_bytes().to_vec()])
        .collect();
    let finder = AhoCorasick::new(&secrets).expect("build the pattern matcher");
    assert_eq!(finder.find_iter(backup).count(), 0);
    // Positive control: each secret is found where it was planted.
    for secret in secrets {
        let planted = [&backup[..1000], &secret, &backup[1000..]].concat();
        assert_eq!(finder.find_iter(&planted).count(), 1);
    }
}

/// The forms, encoded independently to detect mistakes in `encoded_forms`.
fn planted_forms(number: &str) -> Vec<(&'static str, Vec<u8>)> {
    let encode_after = |prefix: &str| STANDARD.encode(format!("{prefix}{number}\"}}")).into_bytes();
    let digits = u128::from_str_radix(number, 16).expect("digits are hexadecimal digits");
    vec![
        ("ASCII", format!("{{\"number\":\"{number}\"}}").into_bytes()),
        // Without an adjacent zero nibble. Otherwise the other BCD form would match a byte later.
        (
            "UTF-16LE",
            [1].into_iter().chain(number.encode_utf16().flat_map(u16::to_le_bytes)).collect(),
        ),
        ("UTF-16BE", number.encode_utf16().flat_map(u16::to_be_bytes).chain([1]).collect()),
        ("BCD", digits.to_be_bytes().to_vec()),
        ("BCD from a half byte", (digits << 4 | 0xf).to_be_bytes().to_vec()),
        ("base64", encode_after("abc")),
        ("base64 after one byte", encode_after("a")),
        ("base64 after two bytes", encode_after("ab")),
    ]
}
