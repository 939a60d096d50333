//! The order of the measurements: reference, subject, reference, so that drift is visible.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use crate::{
    harness::{
        bare_server,
        load::{self, LoadDuration, LoadPlan},
        process::{BenchServer, Probe, StartCommand, anonymous_mb, measure_start},
        results::{MeasurementResult, print_result},
        script::{CreateScript, CreateVariant, IdText, ListScript, ReadScript},
    },
    measurements::raw::RawStorage,
};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const CONNECTIONS_MAX: usize = 64;
/// The maximum number of connections: the size of a full group commit of creates.
const GROUP_ROWS: u32 = 64;
const COLD_START_COUNT: usize = 5;
/// The number of tokens in a small vault.
const SMALL_VAULT_TOKENS: u32 = 10_000;
const PAGE_CONNECTIONS: usize = 4;

#[derive(Debug)]
pub(crate) struct BenchPlan {
    pub(crate) scrip: PathBuf,
    pub(crate) folder: PathBuf,
    /// Warm-up time and measured time.
    pub(crate) durations: (Duration, Duration),
    pub(crate) tokens_max: Option<u32>,
}

/// A subject with the references measured directly before and after it.
#[derive(Debug)]
pub(crate) struct HttpRound {
    pub(crate) bare: [MeasurementResult; 2],
    pub(crate) raw: Option<[MeasurementResult; 2]>,
    pub(crate) scrip: MeasurementResult,
}

#[derive(Debug)]
pub(crate) struct BenchResults {
    pub(crate) creates: Vec<HttpRound>,
    pub(crate) reads: Vec<HttpRound>,
    pub(crate) with_idempotency_key: MeasurementResult,
    /// Without search indexes, with four, and without again.
    pub(crate) indexed_creates: [MeasurementResult; 3],
    /// Reads without the read log, with it, and without again.
    pub(crate) recorded_reads: [MeasurementResult; 3],
    pub(crate) anonymous_mb: f64,
    pub(crate) tokens: usize,
    pub(crate) million_tokens: Option<MillionTokensResult>,
    /// Fastest first.
    pub(crate) cold_starts: Vec<Duration>,
}

#[derive(Debug)]
pub(crate) struct MillionTokensResult {
    pub(crate) creates: MeasurementResult,
    pub(crate) reads: MeasurementResult,
    pub(crate) anonymous_mb: f64,
    /// Pages of a small vault, of this one, and of the small one again.
    pub(crate) pages: [MeasurementResult; 3],
}

struct VaultBench {
    bare: BenchServer,
    scrip: BenchServer,
    raw: RawStorage,
    durations: (Duration, Duration),
    /// Counts card numbers, so that none is used twice.
    serial: Arc<AtomicU64>,
    ids: Arc<Vec<IdText>>,
}

pub(crate) async fn measure_vault(plan: &BenchPlan) -> anyhow::Result<BenchResults> {
    let data = plan.folder.join("vault");
    std::fs::create_dir(&data)?;
    let mut bench = VaultBench {
        bare: BenchServer::start_bare()?,
        scrip: BenchServer::start_scrip(&plan.scrip, &data)?,
        raw: RawStorage::open(&plan.folder.join("raw.db"))?,
        durations: plan.durations,
        serial: Arc::default(),
        ids: Arc::default(),
    };
    let (mut creates, mut reads) = (Vec::new(), Vec::new());
    for connections in CONNECTIONS {
        creates.push(bench.measure_creates(connections).await?);
        reads.push(bench.measure_reads(connections).await?);
    }
    let with_idempotency_key = bench
        .run_creates("create, idempotency key", CONNECTIONS_MAX, CreateVariant::IdempotencyKey)
        .await?;
    let connections = CONNECTIONS_MAX;
    let indexed_creates = [
        bench.run_creates("create", connections, CreateVariant::Plain).await?,
        bench.run_creates("create, four indexes", connections, CreateVariant::FourIndexes).await?,
        bench.run_creates("create", connections, CreateVariant::Plain).await?,
    ];
    let (tokens, anonymous_mb) = (bench.ids.len(), anonymous_mb(bench.scrip.pid())?);
    let million_tokens = match plan.tokens_max {
        Some(count) => Some(bench.fill_to_million(plan, count).await?),
        None => None,
    };
    let recorded_reads = [
        bench.measure_reads_with_log(plan, &data, "read, unrecorded", "off").await?,
        bench.measure_reads_with_log(plan, &data, "read, recorded", "durable").await?,
        bench.measure_reads_with_log(plan, &data, "read, unrecorded", "off").await?,
    ];
    bench.scrip.stop()?;
    let mut cold_starts = Vec::with_capacity(COLD_START_COUNT);
    for _ in 0..COLD_START_COUNT {
        let start = measure_start(&plan.scrip, &data, StartCommand::Dev, Probe::Healthz);
        cold_starts.push(start?);
    }
    cold_starts.sort_unstable();
    Ok(BenchResults {
        creates,
        reads,
        with_idempotency_key,
        indexed_creates,
        recorded_reads,
        anonymous_mb,
        tokens,
        million_tokens,
        cold_starts,
    })
}

impl VaultBench {
    async fn measure_creates(&mut self, connections: usize) -> anyhow::Result<HttpRound> {
        let bare_before = self.measure_bare_post(connections).await?;
        let raw_before = self.measure_raw(connections)?;
        let scrip = self.run_creates("create", connections, CreateVariant::Plain).await?;
        let raw_after = self.measure_raw(connections)?;
        let bare_after = self.measure_bare_post(connections).await?;
        let raw = raw_before.zip(raw_after).map(|(before, after)| [before, after]);
        Ok(HttpRound { bare: [bare_before, bare_after], raw, scrip })
    }

    async fn measure_reads(&mut self, connections: usize) -> anyhow::Result<HttpRound> {
        let before = self.measure_bare_get(connections).await?;
        let scrip = self.run_reads("read", connections).await?;
        let after = self.measure_bare_get(connections).await?;
        Ok(HttpRound { bare: [before, after], raw: None, scrip })
    }

    /// Measures reads of another process on the same data.
    async fn measure_reads_with_log(
        &mut self,
        plan: &BenchPlan,
        data: &Path,
        name: &'static str,
        read_log_mode: &str,
    ) -> anyhow::Result<MeasurementResult> {
        // Only one process can open the data at a time.
        std::mem::replace(&mut self.scrip, BenchServer::start_bare()?).stop()?;
        self.scrip = BenchServer::start_scrip_with_read_log(&plan.scrip, data, read_log_mode)?;
        self.run_reads(name, CONNECTIONS_MAX).await
    }

    /// Storage has no connections: one connection is compared with single rows, the maximum with
    /// full groups.
    fn measure_raw(&mut self, connections: usize) -> anyhow::Result<Option<MeasurementResult>> {
        let (name, rows) = match connections {
            1 => ("raw, 1 row a commit", 1),
            CONNECTIONS_MAX => ("raw, 64 rows a commit", GROUP_ROWS),
            _ => return Ok(None),
        };
        // The writer of the vault has its own thread too. Here the other tasks are idle.
        let (warm_up, measured) = self.durations;
        let result =
            tokio::task::block_in_place(|| self.raw.measure(name, rows, warm_up, measured))?;
        print_result(&result)?;
        Ok(Some(result))
    }

    async fn measure_bare_post(&self, connections: usize) -> anyhow::Result<MeasurementResult> {
        let scripts = self.create_scripts(&self.bare, connections, CreateVariant::Plain)?;
        let (result, _) = load::run(self.load_plan("bare POST", &self.bare, 201), scripts).await?;
        print_result(&result)?;
        Ok(result)
    }

    async fn measure_bare_get(&self, connections: usize) -> anyhow::Result<MeasurementResult> {
        let ids = Arc::new(vec![bare_server::SAMPLE_ID]);
        let scripts = read_scripts(&self.bare, &ids, connections)?;
        let (result, _) = load::run(self.load_plan("bare GET", &self.bare, 200), scripts).await?;
        print_result(&result)?;
        Ok(result)
    }

    async fn run_creates(
        &mut self,
        name: &'static str,
        connections: usize,
        variant: CreateVariant,
    ) -> anyhow::Result<MeasurementResult> {
        let load = self.load_plan(name, &self.scrip, 201);
        self.run_creates_with_plan(load, connections, variant).await
    }

    async fn run_creates_with_plan(
        &mut self,
        load: LoadPlan,
        connections: usize,
        variant: CreateVariant,
    ) -> anyhow::Result<MeasurementResult> {
        let scripts = self.create_scripts(&self.scrip, connections, variant)?;
        let (result, scripts) = load::run(load, scripts).await?;
        Arc::make_mut(&mut self.ids).extend(scripts.into_iter().flat_map(|it| it.ids));
        print_result(&result)?;
        Ok(result)
    }

    async fn run_reads(
        &self,
        name: &'static str,
        connections: usize,
    ) -> anyhow::Result<MeasurementResult> {
        let scripts = read_scripts(&self.scrip, &self.ids, connections)?;
        let (result, _) = load::run(self.load_plan(name, &self.scrip, 200), scripts).await?;
        print_result(&result)?;
        Ok(result)
    }

    async fn fill_to_million(
        &mut self,
        plan: &BenchPlan,
        tokens_max: u32,
    ) -> anyhow::Result<MillionTokensResult> {
        let existing_count = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let until = LoadDuration::Count(tokens_max.saturating_sub(existing_count));
        let load = LoadPlan { until, ..self.load_plan("create up to 1M", &self.scrip, 201) };
        let creates =
            self.run_creates_with_plan(load, CONNECTIONS_MAX, CreateVariant::Plain).await?;
        let reads = self.run_reads("read from 1M", CONNECTIONS_MAX).await?;
        let anonymous_mb = anonymous_mb(self.scrip.pid())?;
        Ok(MillionTokensResult {
            creates,
            reads,
            anonymous_mb,
            pages: self.measure_pages(plan).await?,
        })
    }

    /// Measures pages of a vault with ten thousand tokens, of this vault, and of the small vault
    /// again.
    async fn measure_pages(&self, plan: &BenchPlan) -> anyhow::Result<[MeasurementResult; 3]> {
        let data = plan.folder.join("small");
        std::fs::create_dir(&data)?;
        let small_server = BenchServer::start_scrip(&plan.scrip, &data)?;
        let until = LoadDuration::Count(SMALL_VAULT_TOKENS);
        let load = LoadPlan { until, ..self.load_plan("create", &small_server, 201) };
        load::run(load, self.create_scripts(&small_server, CONNECTIONS_MAX, CreateVariant::Plain)?)
            .await?;
        let measure_list = async |name,
                                  server: &BenchServer|
               -> anyhow::Result<MeasurementResult> {
            let scripts = (0..PAGE_CONNECTIONS).map(|_| ListScript::new(&server.api_key)).collect();
            let (result, _) = load::run(self.load_plan(name, server, 200), scripts).await?;
            print_result(&result)?;
            Ok(result)
        };
        let before = measure_list("page of 10,000", &small_server).await?;
        let subject = measure_list("page of 1M", &self.scrip).await?;
        let after = measure_list("page of 10,000", &small_server).await?;
        small_server.stop()?;
        Ok([before, subject, after])
    }

    fn load_plan(&self, name: &'static str, server: &BenchServer, status: u16) -> LoadPlan {
        let until = LoadDuration::Time(self.durations.0, self.durations.1);
        LoadPlan {
            name,
            address: server.address,
            server: server.pid(),
            upstream: None,
            status,
            until,
            interval: None,
        }
    }

    fn create_scripts(
        &self,
        server: &BenchServer,
        connections: usize,
        variant: CreateVariant,
    ) -> anyhow::Result<Vec<CreateScript>> {
        let build_script = |_| CreateScript::new(&server.api_key, variant, &self.serial);
        (0..connections).map(build_script).collect()
    }
}

fn read_scripts(
    server: &BenchServer,
    ids: &Arc<Vec<IdText>>,
    connections: usize,
) -> anyhow::Result<Vec<ReadScript>> {
    (0_u64..).take(connections).map(|seed| ReadScript::new(&server.api_key, ids, seed)).collect()
}
