//! The time to reject a wrong key does not reveal how much of the key is right.

#![expect(clippy::disallowed_methods, reason = "this test measures time")]

use std::{cmp::Ordering, env, hint::black_box, time::Instant};

use scrip_core::{policy::Directory, types::ApplicationKind};
use scrip_seal::fill_random;
use scrip_testing::{
    policy::{TOKENS, access_without_rules},
    vault_harness::{Engine, VaultHarness},
};

use crate::policy::harness::expect_principal;

/// Rounds per attempt, and samples per round.
const ROUNDS: usize = 180;
const SAMPLES: usize = 1_000;
/// Without a real difference, t exceeds 4 only once in 15,000 cases.
const T_MAX: f64 = 6.0;
/// Other load disturbs a measurement. A real leak shows in every attempt.
const ATTEMPTS: usize = 3;

/// A wrong key that has the given number of leading characters of the right key.
fn wrong_key(key: &str, right_count: usize) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHJKMNPQRSTVWXYZ0123456789";
    let mut random = vec![0; key.len()];
    fill_random(&mut random);
    let wrong_byte = |(index, (right_byte, random)): (usize, (u8, u8))| {
        let letter = LETTERS[usize::from(random % 32)];
        match index.cmp(&right_count) {
            Ordering::Less => right_byte,
            Ordering::Equal if letter == right_byte => b'-',
            Ordering::Equal | Ordering::Greater => letter,
        }
    };
    let bytes = key.bytes().zip(random).enumerate().map(wrong_byte).collect();
    String::from_utf8(bytes).unwrap()
}

/// The median time of each kind of wrong key, in nanoseconds. A kind is a number of right
/// characters. The kinds run in random order, so that other load affects all of them equally.
fn median_times(key: &str, kinds: &[usize], is_rejected: &dyn Fn(&str) -> bool) -> Vec<f64> {
    let mut random = [0; SAMPLES];
    fill_random(&mut random);
    let kind = |it: &u8| usize::from(*it) % kinds.len();
    let attempts: Vec<_> =
        random.iter().map(kind).map(|it| (it, wrong_key(key, kinds[it]))).collect();
    let mut samples = vec![Vec::new(); kinds.len()];
    for (kind, text) in attempts {
        let started = Instant::now();
        let rejected = is_rejected(black_box(&text));
        let duration = started.elapsed();
        assert!(rejected, "{text}");
        samples[kind].push(duration.as_secs_f64() * 1e9);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    samples.into_iter().map(median).collect()
}

/// The largest t value of the differences between two kinds over all rounds.
fn largest_t(rounds: &[Vec<f64>]) -> f64 {
    let count = f64::from(u32::try_from(rounds.len()).unwrap());
    let t_value = |(first, second): (usize, usize)| {
        let differences: Vec<_> = rounds.iter().map(|it| it[first] - it[second]).collect();
        let mean = differences.iter().sum::<f64>() / count;
        let variance =
            differences.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // A deviation below the resolution of the clock is not meaningful.
        mean.abs() / (variance / count).sqrt().max(0.01)
    };
    [(0, 1), (0, 2), (1, 2)].into_iter().map(t_value).fold(0.0, f64::max)
}

/// Whether the kinds are distinguishable in every attempt, and the t value of each attempt.
fn is_distinguishable(key: &str, is_rejected: &dyn Fn(&str) -> bool) -> (bool, Vec<f64>) {
    // No right characters, half of them, and all except the last.
    let kinds = [0, key.len() / 2, key.len() - 1];
    let mut t_values = Vec::new();
    for _ in 0..ATTEMPTS {
        let rounds: Vec<_> = (0..ROUNDS).map(|_| median_times(key, &kinds, is_rejected)).collect();
        t_values.push(largest_t(&rounds));
        if t_values.last().is_some_and(|it| *it < T_MAX) {
            return (false, t_values);
        }
    }
    (true, t_values)
}

/// The control: a comparison that stops at the first difference.
fn differs_byte_by_byte(key: &str, text: &str) -> bool {
    for (expected, actual) in key.bytes().zip(text.bytes()) {
        if black_box(expected) != black_box(actual) {
            return true;
        }
    }
    key.len() != text.len()
}

async fn directory_with_key() -> (Directory, String) {
    let harness = VaultHarness::open(Engine::Memory).await;
    let tenant = harness.default_tenant().await;
    let key = harness
        .create_api_key(&tenant, ApplicationKind::Private, access_without_rules(TOKENS))
        .await;
    (harness.directory().await, key)
}

/// Timing tests are unreliable on a busy machine, so this one runs only on request.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "prints results for a manual run")]
async fn wrong_api_key_is_rejected_in_constant_time() {
    let (directory, key) = directory_with_key().await;
    expect_principal(directory.authenticate(&key));
    for right_count in [0, key.len() / 2, key.len() - 1] {
        let wrong = wrong_key(&key, right_count);
        let same_count = key
            .bytes()
            .zip(wrong.bytes())
            .take_while(|(expected, actual)| expected == actual)
            .count();
        assert_eq!((same_count, wrong.len()), (right_count, key.len()));
        assert!(directory.authenticate(&wrong).is_none());
    }
    if env::var_os("SCRIP_TEST_LONG").is_none() {
        eprintln!("not timed: SCRIP_TEST_LONG is not set");
        return;
    }
    let (leaks, t_values) = is_distinguishable(&key, &|it| directory.authenticate(it).is_none());
    eprintln!("t of a lookup: {t_values:.1?}");
    let (control_leaks, control_t_values) =
        is_distinguishable(&key, &|it| differs_byte_by_byte(&key, it));
    eprintln!("t of a comparison byte by byte: {control_t_values:.1?}");
    assert!(control_leaks, "the control was not distinguishable: {control_t_values:?}");
    assert!(!leaks, "the rejection time depends on the key: {t_values:?}");
}
