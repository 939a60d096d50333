//! How long a wrong key takes to refuse tells nothing about how much of it is right.

#![expect(clippy::disallowed_methods, reason = "this is about how long something takes")]

use std::{cmp::Ordering, env, hint::black_box, time::Instant};

use scrip_core::policy::{ApplicationKind, Directory, TenantSettings};
use scrip_seal::fill_random;
use scrip_testing::{
    policy::{TOKENS, access_without_rules},
    vault_harness::{Engine, VaultHarness},
};

use crate::policy::harness::principal;

/// Rounds of one attempt, and samples of a round.
const ROUNDS: usize = 180;
const SAMPLES: usize = 1_000;
/// Were there no difference, it would be beyond 4 once in 15,000 times.
const T_MAX: f64 = 6.0;
/// A machine does other things too. What a key tells, it tells every time.
const ATTEMPTS: usize = 3;

/// Text that shares this many characters with the key, and not the next one.
fn wrong_key(key: &str, right: usize) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHJKMNPQRSTVWXYZ0123456789";
    let mut random = vec![0; key.len()];
    fill_random(&mut random);
    let other = |(at, (is, random)): (usize, (u8, u8))| {
        let letter = LETTERS[usize::from(random % 32)];
        match at.cmp(&right) {
            Ordering::Less => is,
            Ordering::Equal if letter == is => b'-',
            Ordering::Equal | Ordering::Greater => letter,
        }
    };
    let bytes = key.bytes().zip(random).enumerate().map(other).collect();
    String::from_utf8(bytes).unwrap()
}

/// The median of each kind in nanoseconds. The kinds come in random order, so that whatever else
/// happens, happens to all of them.
fn median_times(key: &str, kinds: &[usize], is_rejected: &dyn Fn(&str) -> bool) -> Vec<f64> {
    let mut random = [0; SAMPLES];
    fill_random(&mut random);
    let kind = |it: &u8| usize::from(*it) % kinds.len();
    let asked: Vec<_> = random.iter().map(kind).map(|it| (it, wrong_key(key, kinds[it]))).collect();
    let mut samples = vec![Vec::new(); kinds.len()];
    for (kind, text) in asked {
        let started = Instant::now();
        let rejected = is_rejected(black_box(&text));
        let taken = started.elapsed();
        assert!(rejected, "{text}");
        samples[kind].push(taken.as_secs_f64() * 1e9);
    }
    let median = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    samples.into_iter().map(median).collect()
}

/// The largest t of the differences between two kinds, round by round.
fn largest_t(rounds: &[Vec<f64>]) -> f64 {
    let count = f64::from(u32::try_from(rounds.len()).unwrap());
    let t = |(one, other): (usize, usize)| {
        let differ: Vec<_> = rounds.iter().map(|it| it[one] - it[other]).collect();
        let mean = differ.iter().sum::<f64>() / count;
        let spread = differ.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // A clock has steps; differences that are all the same are no smaller than one of them.
        mean.abs() / (spread / count).sqrt().max(0.01)
    };
    [(0, 1), (0, 2), (1, 2)].into_iter().map(t).fold(0.0, f64::max)
}

/// Whether it can be told apart every time that it is tried.
fn is_distinguishable(key: &str, is_rejected: &dyn Fn(&str) -> bool) -> (bool, Vec<f64>) {
    // Nothing, half, and all but the last character.
    let kinds = [0, key.len() / 2, key.len() - 1];
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let rounds: Vec<_> = (0..ROUNDS).map(|_| median_times(key, &kinds, is_rejected)).collect();
        seen.push(largest_t(&rounds));
        if seen.last().is_some_and(|it| *it < T_MAX) {
            return (false, seen);
        }
    }
    (true, seen)
}

/// What must not be: it stops at the first character that differs.
fn differs_byte_by_byte(key: &str, text: &str) -> bool {
    for (one, other) in key.bytes().zip(text.bytes()) {
        if black_box(one) != black_box(other) {
            return true;
        }
    }
    key.len() != text.len()
}

async fn directory_with_key() -> (Directory, String) {
    let harness = VaultHarness::open(Engine::Memory).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let key = harness
        .create_api_key(&tenant, ApplicationKind::Private, access_without_rules(TOKENS))
        .await;
    (harness.directory().await, key)
}

/// A timing fails no test on a busy machine, so this one runs only when it is asked for.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "figures for whoever asked for them")]
async fn wrong_api_key_is_rejected_in_constant_time() {
    let (directory, key) = directory_with_key().await;
    principal(directory.authenticate(&key));
    for right in [0, key.len() / 2, key.len() - 1] {
        let wrong = wrong_key(&key, right);
        let same = key.bytes().zip(wrong.bytes()).take_while(|(one, other)| one == other).count();
        assert_eq!((same, wrong.len()), (right, key.len()));
        assert!(directory.authenticate(&wrong).is_none());
    }
    if env::var_os("SCRIP_TEST_LONG").is_none() {
        eprintln!("not timed: SCRIP_TEST_LONG is not set");
        return;
    }
    let (told, seen) = is_distinguishable(&key, &|it| directory.authenticate(it).is_none());
    eprintln!("t of a lookup: {seen:.1?}");
    let (control, naive) = is_distinguishable(&key, &|it| differs_byte_by_byte(&key, it));
    eprintln!("t of a comparison byte by byte: {naive:.1?}");
    assert!(control, "the control was not told apart: {naive:?}");
    assert!(!told, "a wrong key tells how much of it is right: {seen:?}");
}
