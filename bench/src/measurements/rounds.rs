//! The order of the measurements: reference, subject, reference, so that drift shows.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use crate::{
    harness::{
        bare,
        figures::{Figures, note},
        load::{self, Load, Until},
        process::{Server, anonymous_mb, cold_start},
        script::{Besides, Creates, IdText, Pages, Reads},
    },
    measurements::raw::Raw,
};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const CONNECTIONS_MOST: usize = 64;
/// As many as there are connections at most: what a full group of creates would be.
const GROUP: u32 = 64;
const COLD_STARTS: usize = 5;
/// How many tokens a vault has that is small.
const SMALL: u32 = 10_000;
const PAGE_CONNECTIONS: usize = 4;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) scrip: PathBuf,
    pub(crate) folder: PathBuf,
    /// Warming up, and measuring.
    pub(crate) span: (Duration, Duration),
    pub(crate) tokens_max: Option<u32>,
}

/// A subject with the references measured right before and right after it.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) bare: [Figures; 2],
    pub(crate) raw: Option<[Figures; 2]>,
    pub(crate) scrip: Figures,
}

#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) creates: Vec<Round>,
    pub(crate) reads: Vec<Round>,
    pub(crate) keyed: Figures,
    /// Without search indexes, with four, and without again.
    pub(crate) indexed: [Figures; 3],
    /// Reads that nobody records, reads that are, and again those that are not.
    pub(crate) recorded: [Figures; 3],
    pub(crate) anonymous_mb: f64,
    pub(crate) tokens: usize,
    pub(crate) million: Option<Million>,
    /// Fastest first.
    pub(crate) cold_starts: Vec<Duration>,
}

#[derive(Debug)]
pub(crate) struct Million {
    pub(crate) creates: Figures,
    pub(crate) reads: Figures,
    pub(crate) anonymous_mb: f64,
    /// Pages of a small vault, of this one, and of the small one again.
    pub(crate) pages: [Figures; 3],
}

struct Bench {
    bare: Server,
    scrip: Server,
    raw: Raw,
    span: (Duration, Duration),
    /// Counts card numbers, so that none comes twice.
    serial: Arc<AtomicU64>,
    ids: Arc<Vec<IdText>>,
}

pub(crate) async fn run(plan: &Plan) -> anyhow::Result<Results> {
    let data = plan.folder.join("vault");
    std::fs::create_dir(&data)?;
    let mut bench = Bench {
        bare: Server::bare()?,
        scrip: Server::scrip(&plan.scrip, &data)?,
        raw: Raw::open(&plan.folder.join("raw.db"))?,
        span: plan.span,
        serial: Arc::default(),
        ids: Arc::default(),
    };
    let (mut creates, mut reads) = (Vec::new(), Vec::new());
    for connections in CONNECTIONS {
        creates.push(bench.creates(connections).await?);
        reads.push(bench.reads(connections).await?);
    }
    let keyed = bench.create("create, keyed", CONNECTIONS_MOST, Besides::IdempotencyKey).await?;
    let most = CONNECTIONS_MOST;
    let indexed = [
        bench.create("create", most, Besides::Nothing).await?,
        bench.create("create, four indexes", most, Besides::FourIndexes).await?,
        bench.create("create", most, Besides::Nothing).await?,
    ];
    let (tokens, anonymous) = (bench.ids.len(), anonymous_mb(bench.scrip.pid())?);
    let million = match plan.tokens_max {
        Some(count) => Some(bench.fill(plan, count).await?),
        None => None,
    };
    let recorded = [
        bench.reads_recorded(plan, &data, "read, unrecorded", "off").await?,
        bench.reads_recorded(plan, &data, "read, recorded", "durable").await?,
        bench.reads_recorded(plan, &data, "read, unrecorded", "off").await?,
    ];
    bench.scrip.stop()?;
    let mut cold_starts = Vec::with_capacity(COLD_STARTS);
    for _ in 0..COLD_STARTS {
        cold_starts.push(cold_start(&plan.scrip, &data)?);
    }
    cold_starts.sort_unstable();
    Ok(Results {
        creates,
        reads,
        keyed,
        indexed,
        recorded,
        anonymous_mb: anonymous,
        tokens,
        million,
        cold_starts,
    })
}

impl Bench {
    async fn creates(&mut self, connections: usize) -> anyhow::Result<Round> {
        let bare_before = self.bare_post(connections).await?;
        let raw_before = self.raw(connections)?;
        let scrip = self.create("create", connections, Besides::Nothing).await?;
        let raw_after = self.raw(connections)?;
        let bare_after = self.bare_post(connections).await?;
        let raw = raw_before.zip(raw_after).map(|(before, after)| [before, after]);
        Ok(Round { bare: [bare_before, bare_after], raw, scrip })
    }

    async fn reads(&mut self, connections: usize) -> anyhow::Result<Round> {
        let before = self.bare_get(connections).await?;
        let scrip = self.read("read", connections).await?;
        let after = self.bare_get(connections).await?;
        Ok(Round { bare: [before, after], raw: None, scrip })
    }

    /// By another process on the same data.
    async fn reads_recorded(
        &mut self,
        plan: &Plan,
        data: &Path,
        name: &'static str,
        reads: &str,
    ) -> anyhow::Result<Figures> {
        // The data is one process's at a time.
        std::mem::replace(&mut self.scrip, Server::bare()?).stop()?;
        self.scrip = Server::scrip_recording(&plan.scrip, data, reads)?;
        self.read(name, CONNECTIONS_MOST).await
    }

    /// Storage has no connections: one is compared with single rows, the most with full groups.
    fn raw(&mut self, connections: usize) -> anyhow::Result<Option<Figures>> {
        let (name, rows) = match connections {
            1 => ("raw, 1 row a commit", 1),
            CONNECTIONS_MOST => ("raw, 64 rows a commit", GROUP),
            _ => return Ok(None),
        };
        // The writer of the vault is a thread of its own too; here the others have nothing to do.
        let (warm_up, measured) = self.span;
        let figures =
            tokio::task::block_in_place(|| self.raw.measure(name, rows, warm_up, measured))?;
        note(&figures)?;
        Ok(Some(figures))
    }

    async fn bare_post(&self, connections: usize) -> anyhow::Result<Figures> {
        let scripts = self.create_scripts(&self.bare, connections, Besides::Nothing)?;
        let (figures, _) = load::run(self.load("bare POST", &self.bare, 201), scripts).await?;
        note(&figures)?;
        Ok(figures)
    }

    async fn bare_get(&self, connections: usize) -> anyhow::Result<Figures> {
        let ids = Arc::new(vec![bare::ID]);
        let scripts = read_scripts(&self.bare, &ids, connections)?;
        let (figures, _) = load::run(self.load("bare GET", &self.bare, 200), scripts).await?;
        note(&figures)?;
        Ok(figures)
    }

    async fn create(
        &mut self,
        name: &'static str,
        connections: usize,
        besides: Besides,
    ) -> anyhow::Result<Figures> {
        let load = self.load(name, &self.scrip, 201);
        self.create_by(load, connections, besides).await
    }

    async fn create_by(
        &mut self,
        load: Load,
        connections: usize,
        besides: Besides,
    ) -> anyhow::Result<Figures> {
        let scripts = self.create_scripts(&self.scrip, connections, besides)?;
        let (figures, scripts) = load::run(load, scripts).await?;
        Arc::make_mut(&mut self.ids).extend(scripts.into_iter().flat_map(|it| it.ids));
        note(&figures)?;
        Ok(figures)
    }

    async fn read(&self, name: &'static str, connections: usize) -> anyhow::Result<Figures> {
        let scripts = read_scripts(&self.scrip, &self.ids, connections)?;
        let (figures, _) = load::run(self.load(name, &self.scrip, 200), scripts).await?;
        note(&figures)?;
        Ok(figures)
    }

    async fn fill(&mut self, plan: &Plan, tokens_max: u32) -> anyhow::Result<Million> {
        let there = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let until = Until::Count(tokens_max.saturating_sub(there));
        let load = Load { until, ..self.load("create up to 1M", &self.scrip, 201) };
        let creates = self.create_by(load, CONNECTIONS_MOST, Besides::Nothing).await?;
        let reads = self.read("read from 1M", CONNECTIONS_MOST).await?;
        let anonymous_mb = anonymous_mb(self.scrip.pid())?;
        Ok(Million { creates, reads, anonymous_mb, pages: self.pages(plan).await? })
    }

    /// Beside a vault of ten thousand tokens.
    async fn pages(&self, plan: &Plan) -> anyhow::Result<[Figures; 3]> {
        let data = plan.folder.join("small");
        std::fs::create_dir(&data)?;
        let small = Server::scrip(&plan.scrip, &data)?;
        let until = Until::Count(SMALL);
        let load = Load { until, ..self.load("create", &small, 201) };
        load::run(load, self.create_scripts(&small, CONNECTIONS_MOST, Besides::Nothing)?).await?;
        let turn = async |name, server: &Server| -> anyhow::Result<Figures> {
            let scripts = (0..PAGE_CONNECTIONS).map(|_| Pages::new(&server.api_key)).collect();
            let (figures, _) = load::run(self.load(name, server, 200), scripts).await?;
            note(&figures)?;
            Ok(figures)
        };
        let before = turn("page of 10,000", &small).await?;
        let subject = turn("page of 1M", &self.scrip).await?;
        let after = turn("page of 10,000", &small).await?;
        small.stop()?;
        Ok([before, subject, after])
    }

    fn load(&self, name: &'static str, server: &Server, status: u16) -> Load {
        let until = Until::Time(self.span.0, self.span.1);
        Load { name, address: server.address, server: server.pid(), status, until, every: None }
    }

    fn create_scripts(
        &self,
        server: &Server,
        connections: usize,
        besides: Besides,
    ) -> anyhow::Result<Vec<Creates>> {
        let script = |_| Creates::new(&server.api_key, besides, &self.serial);
        (0..connections).map(script).collect()
    }
}

fn read_scripts(
    server: &Server,
    ids: &Arc<Vec<IdText>>,
    connections: usize,
) -> anyhow::Result<Vec<Reads>> {
    (0_u64..).take(connections).map(|seed| Reads::new(&server.api_key, ids, seed)).collect()
}
