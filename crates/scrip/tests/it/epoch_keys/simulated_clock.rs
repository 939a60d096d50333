//! A simulated machine: its wall clock is changed, its server is restarted, and its sweeper is
//! killed between steps, all driven by a seed. Compared with the true time, no token is readable
//! too long or deleted too early.

use std::{
    env,
    sync::{Arc, Mutex},
    time::Duration,
};

use scrip_core::{
    Error, Timestamp, Vault,
    audit::SignedWatermark,
    log_tasks::load_authentic_time,
    operations::{
        tenants::create_tenant::{create_tenant, initialize_vault_keys},
        tokens::{
            create_token::create_token,
            expire_token::{erase_cvcs, expire_token},
            get_token::get_token,
        },
    },
    policy::{
        ApiKeyLookup, Caller, Directory, DisplayName, PolicyPermit, RequestOrigin, TenantSettings,
    },
    store::open_directory,
    token::NewToken,
    types::{
        ApplicationKind, Permission, TenantKind, Transform,
        id::TokenId,
        time::{Clock, ClockWatermark},
    },
};
use scrip_seal::EpochKeys;
use scrip_server::clock::steady::{
    ClockReading, FOLLOW_AFTER, SLEW_WITHIN, StartTrust, SteadyTime, TimeBounds,
};
use scrip_testing::{
    policy::{access_rule, access_with_rules},
    random::SeededRandom,
    requests::card_with_cvc,
    vault::{create_key, new_vault, root_key},
};

use crate::harness::engine::TestEngine;

const START: i64 = 1_800_000_000_000;
const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// The clock follows a wall clock with an error up to this size, so times may be wrong by this
/// much.
const TOLERANCE: i64 = 61 * SECOND;
const EPOCH: Duration = Duration::from_secs(15 * 60);

/// The true time, the error of the wall clock, and the boot time of the machine.
#[derive(Debug, Clone, Copy)]
struct Machine {
    true_ms: i64,
    error_ms: i64,
    booted_ms: i64,
}

impl Machine {
    fn clock_reading(self) -> ClockReading {
        let Self { true_ms, error_ms, booted_ms } = self;
        ClockReading { wall_ms: true_ms + error_ms, boot_ms: true_ms - booted_ms }
    }
}

struct SimulatedClock {
    machine: Arc<Mutex<Machine>>,
    state: Mutex<SteadyTime>,
}

impl SimulatedClock {
    fn times(&self) -> TimeBounds {
        let reading = self.machine.lock().unwrap().clock_reading();
        self.state.lock().unwrap().observe(reading).0
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        self.times().now
    }

    fn earliest(&self) -> Timestamp {
        self.times().earliest
    }

    fn latest(&self) -> Timestamp {
        self.times().latest
    }
}

/// A token and the lifetime that a correct clock would give it.
struct ExpectedToken {
    id: TokenId,
    created_ms: i64,
    expires_ms: i64,
}

struct MachineSimulation {
    vault: Vault,
    caller: Caller,
    directory: Arc<Directory>,
    machine: Arc<Mutex<Machine>>,
    random: SeededRandom,
    expected_tokens: Vec<ExpectedToken>,
    /// How far the clock may lag after a start with a wall clock that was behind.
    lag_ms: i64,
    /// The time since which the wall clock has been ahead.
    ahead_since: Option<i64>,
    engine: TestEngine,
}

async fn open_vault(engine: &TestEngine, machine: &Arc<Mutex<Machine>>) -> Vault {
    let store = engine.open().await;
    let started_after = |watermark| {
        let steady_clock = SteadyTime::start(
            machine.lock().unwrap().clock_reading(),
            watermark,
            StartTrust::Cautious,
        );
        Arc::new(SimulatedClock { machine: Arc::clone(machine), state: Mutex::new(steady_clock) })
    };
    let mut vault = Vault {
        epoch_keys: Arc::new(EpochKeys::in_memory(EPOCH)),
        ..new_vault(store, started_after(None))
    };
    // The vault records the expiry of tokens, which requires the vault key.
    initialize_vault_keys(&vault, &root_key()).await.unwrap();
    // As in a server, check the stored watermark after the vault is open.
    let key = vault.audit_trail.key().unwrap();
    let stored_time = load_authentic_time(&*vault.store, key).await.unwrap();
    assert!(!stored_time.is_altered);
    vault.clock = started_after(stored_time.watermark);
    vault
}

async fn create_caller(vault: &Vault) -> Caller {
    let root = root_key();
    let name = DisplayName::parse("simulated").unwrap();
    let created = create_tenant(vault, &root, name, TenantKind::Test, TenantSettings::default());
    let tenant = created.await.unwrap();
    let directory = open_directory(&*vault.store, &root, None).await.unwrap();
    let permissions = [Permission::TokenCreate, Permission::TokenRead];
    let access = access_with_rules([access_rule("/", Transform::Reveal, &permissions)]);
    let permit = PolicyPermit::for_operator(Arc::clone(directory.tenant(tenant).unwrap()));
    let kind = ApplicationKind::Private;
    let created = create_key(vault, directory.pepper(), permit, kind, access).await;
    let directory = open_directory(&*vault.store, &root, None).await.unwrap();
    let lookup = directory.authenticate(&created.key);
    let Some(ApiKeyLookup::Found { principal: caller, .. }) = lookup else {
        unreachable!("the token was just created")
    };
    let origin = RequestOrigin { trace: "simulated".into(), address: [127, 0, 0, 1].into() };
    Caller::new(Arc::clone(caller), origin)
}

impl MachineSimulation {
    async fn open(seed: u64) -> Self {
        let engine = TestEngine::new().await;
        let machine = Machine { true_ms: START, error_ms: 0, booted_ms: START - HOUR };
        let machine = Arc::new(Mutex::new(machine));
        let vault = open_vault(&engine, &machine).await;
        let caller = create_caller(&vault).await;
        let directory = Arc::new(open_directory(&*vault.store, &root_key(), None).await.unwrap());
        let (random, expected_tokens) = (SeededRandom::new(seed), vec![]);
        let (lag_ms, ahead_since) = (0, None);
        Self {
            vault,
            caller,
            directory,
            machine,
            random,
            expected_tokens,
            lag_ms,
            ahead_since,
            engine,
        }
    }

    fn machine(&self) -> Machine {
        *self.machine.lock().unwrap()
    }

    fn true_ms(&self) -> i64 {
        self.machine().true_ms
    }

    /// Corrects a wall clock that is ahead before the vault would follow it. Beyond that time the
    /// vault trusts the wall clock, and no promise holds.
    fn advance(&mut self, ms: i64) {
        let end_ms = self.true_ms() + ms;
        while self.true_ms() < end_ms {
            let follow_ms = i64::try_from(FOLLOW_AFTER.as_millis()).unwrap();
            if self.ahead_since.is_some_and(|it| self.true_ms() - it > follow_ms - 30 * SECOND) {
                self.set_wall(0);
            }
            {
                let mut machine = self.machine.lock().unwrap();
                machine.true_ms = (machine.true_ms + 10 * SECOND).min(end_ms);
            }
            // The expiry timer of the server.
            let now = self.vault.clock.now().unix_ms;
            self.vault.epoch_keys.destroy_expired(now).unwrap();
        }
    }

    fn set_wall(&mut self, error_ms: i64) {
        self.machine.lock().unwrap().error_ms = error_ms;
        let slew_ms = i64::try_from(SLEW_WITHIN.as_millis()).unwrap();
        self.ahead_since = (error_ms > slew_ms).then(|| self.true_ms());
        self.vault.clock.now();
    }

    async fn create(&mut self) {
        let lifetime_ms = self.random.in_inclusive_range(2 * MINUTE, 90 * MINUTE);
        let expires_ms = self.true_ms() + lifetime_ms;
        let expires_at = Some(Timestamp { unix_ms: expires_ms });
        let new_token = NewToken { expires_at, ..card_with_cvc("4242424242424242", "123") };
        match create_token(&self.vault, &self.caller, new_token, None).await {
            Ok(written) => {
                let (id, given_ms) = (written.token.id, self.true_ms());
                self.expected_tokens.push(ExpectedToken { id, created_ms: given_ms, expires_ms });
            }
            // The token has already expired by a clock that is ahead.
            Err(error) => assert!(matches!(error, Error::Invalid(_)), "{error:?}"),
        }
    }

    /// Runs some steps of the sweeper. The process is killed after them.
    async fn sweep(&mut self) {
        for _ in 0..self.random.in_inclusive_range(0, 2) {
            expire_token(&self.vault, &self.directory).await.unwrap();
            erase_cvcs(&self.vault, &self.directory).await.unwrap();
        }
        if self.random.in_inclusive_range(0, 1) == 0 {
            let clock = &self.vault.clock;
            let time = ClockWatermark { now: clock.now(), earliest: clock.earliest() };
            let key = self.vault.audit_trail.key().unwrap();
            self.vault.store.save_watermark(SignedWatermark::new(key, time)).await.unwrap();
        }
    }

    /// Restarts the process or the machine after a pause, perhaps with another wall clock.
    async fn restart(&mut self) {
        let pause_ms = self.random.in_inclusive_range(0, 20 * MINUTE);
        let error_ms = match self.random.in_inclusive_range(0, 3) {
            0 => self.random_error(),
            _ => 0,
        };
        let reboots = self.random.in_inclusive_range(0, 2) == 0;
        // Close the file before it is opened again.
        self.vault.store = Arc::new(scrip_testing::MemoryStore::default());
        {
            let mut machine = self.machine.lock().unwrap();
            machine.true_ms += pause_ms;
            machine.error_ms = error_ms;
            if reboots {
                machine.booted_ms = machine.true_ms;
            }
        }
        self.vault = open_vault(&self.engine, &self.machine).await;
        self.set_wall(error_ms);
        self.lag_ms = (self.true_ms() - self.vault.clock.now().unix_ms).max(0);
    }

    fn random_error(&mut self) -> i64 {
        match self.random.in_inclusive_range(0, 4) {
            0 => DAY,
            1 => -DAY,
            2 => self.random.in_inclusive_range(-50 * SECOND, 50 * SECOND),
            3 => self.random.in_inclusive_range(2 * MINUTE, DAY),
            _ => self.random.in_inclusive_range(-DAY, -2 * MINUTE),
        }
    }

    async fn step(&mut self) {
        match self.random.in_inclusive_range(0, 19) {
            0..=6 => {
                let ms = self.random.in_inclusive_range(SECOND, 10 * MINUTE);
                self.advance(ms);
            }
            7..=11 => self.create().await,
            12 | 13 => {
                let error_ms = self.random_error();
                self.set_wall(error_ms);
            }
            14 => self.set_wall(0),
            15..=17 => self.sweep().await,
            _ => self.restart().await,
        }
    }

    async fn check(&self, context: &str) {
        let true_ms = self.true_ms();
        let is_wall_clock_right = self.machine().error_ms.abs() < MINUTE;
        let late_tolerance = if is_wall_clock_right { TOLERANCE } else { TOLERANCE + self.lag_ms };
        for it in &self.expected_tokens {
            let inquiry = self.caller.permit_lookup(Permission::TokenRead).unwrap();
            let earliest_time = Timestamp { unix_ms: i64::MIN };
            let stored = self
                .vault
                .store
                .find_token(inquiry, &it.id, earliest_time)
                .await
                .unwrap()
                .is_some();
            let remaining_ms = it.expires_ms - true_ms;
            assert!(
                stored || remaining_ms <= TOLERANCE,
                "{context}: deleted {remaining_ms} ms too early"
            );
            match get_token(&self.vault, &self.caller, &it.id).await {
                Ok(view) => {
                    assert!(
                        true_ms < it.expires_ms + late_tolerance,
                        "{context}: read {} ms too long",
                        -remaining_ms
                    );
                    let cvc = view.detail.unwrap().visible.cvc;
                    let age_ms = true_ms - it.created_ms;
                    let maximum = HOUR + HOUR / 500 + SECOND;
                    assert!(
                        cvc.is_none() || age_ms <= maximum,
                        "{context}: a CVC is readable after {age_ms} ms"
                    );
                }
                Err(error) => assert!(matches!(error, Error::NotFound), "{context}: {error:?}"),
            }
        }
        let next = self.vault.epoch_keys.next_expiry_ms();
        assert!(
            next.is_none_or(|it| it > self.vault.clock.now().unix_ms - 10 * SECOND),
            "{context}"
        );
    }

    /// Expects that all tokens are deleted and that each has one record, after the clock has been
    /// correct for long enough.
    async fn finish(mut self, context: &str) {
        self.set_wall(0);
        self.advance(2 * DAY);
        while expire_token(&self.vault, &self.directory).await.unwrap() > 0 {}
        while erase_cvcs(&self.vault, &self.directory).await.unwrap() > 0 {}
        let status = self.vault.store.status().await.unwrap();
        let count = |name| status.counts.iter().find(|(it, _)| *it == name).unwrap().1;
        assert_eq!((count("tokens"), count("verification_codes")), (0, 0), "{context}");
        let sql = "SELECT count(*), count(DISTINCT entity) FROM log_records \
            WHERE operation = 'expire_token'";
        let token_count = self.expected_tokens.len().to_string();
        assert_eq!(self.engine.select(sql), [[token_count.clone(), token_count]], "{context}");
    }
}

#[tokio::test]
async fn tokens_are_never_readable_after_expiry_or_deleted_before_it() {
    let seeds = if env::var_os("SCRIP_TEST_LONG").is_some() { 200 } else { 12 };
    for seed in 0..seeds {
        let mut harness = MachineSimulation::open(seed).await;
        for step in 0..120 {
            harness.step().await;
            harness.check(&format!("seed {seed}, step {step}")).await;
        }
        harness.finish(&format!("seed {seed}, at the end")).await;
    }
}
