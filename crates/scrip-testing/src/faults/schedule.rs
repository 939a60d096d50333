//! A schedule controlled by a test: every session write and every message to a directory server
//! waits for an order of the test. A test can therefore run any other operation between two steps.

use std::{pin::Pin, sync::Arc};

use scrip_core::{
    change::ChangeOutcome,
    policy::LookupPermit,
    store::Store,
    threeds::{
        DirectoryServerError, DirectoryServerFuture, DirectoryServers, SchemeConnection,
        SchemeRanges, ThreeDsSessionWrite, ThreeDsSettings,
    },
    types::{StoreError, StoreFuture, TenantKind, id::ThreeDsSessionId},
};
use scrip_threeds::{
    code::Scheme,
    format::Version,
    message::{PRes, TransactionContext, parse_message},
    range::CardRanges,
};
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};
use zeroize::Zeroizing;

use crate::{directory_server::scheme_connection, faults::intercepted_store::Interceptor};

/// A point where an operation waits.
#[derive(Debug)]
pub enum PausePoint {
    /// The operation is about to write this session.
    Write(ThreeDsSessionId, oneshot::Sender<WriteOrder>),
    /// The operation is about to send this message.
    SendMessage(Vec<u8>, oneshot::Sender<Result<Zeroizing<Vec<u8>>, DirectoryServerError>>),
}

/// The order for a paused write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOrder {
    Commit,
    Fail,
    /// The write is committed, but the caller gets an error.
    CommitAndFail,
}

/// The state of an operation after a run.
#[derive(Debug)]
pub enum RunOutcome<T> {
    End(T),
    Paused(PausePoint),
}

#[derive(Debug)]
pub struct FaultSchedule {
    sender: mpsc::UnboundedSender<PausePoint>,
    points: Mutex<mpsc::UnboundedReceiver<PausePoint>>,
}

impl FaultSchedule {
    pub fn new() -> Arc<Self> {
        let (sender, points) = mpsc::unbounded_channel();
        Arc::new(Self { sender, points: Mutex::new(points) })
    }

    /// Runs an operation to its end or to its next pause point.
    pub async fn run<T>(
        &self,
        operation: &mut Pin<Box<dyn Future<Output = T> + '_>>,
    ) -> RunOutcome<T> {
        let mut points = self.points.lock().await;
        tokio::select! {
            biased;
            output = operation => RunOutcome::End(output),
            point = points.recv() => RunOutcome::Paused(point.unwrap()),
        }
    }

    async fn pause_write<T>(
        &self,
        id: ThreeDsSessionId,
        write: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (order, received_order) = oneshot::channel();
        self.sender.send(PausePoint::Write(id, order)).unwrap();
        let injected_error = || StoreError::Unavailable("injected by the test".into());
        match received_order.await {
            Ok(WriteOrder::Commit) => write.await,
            Ok(WriteOrder::CommitAndFail) => write.await.and(Err(injected_error())),
            Ok(WriteOrder::Fail) | Err(_) => Err(injected_error()),
        }
    }
}

/// Session writes wait for the order of the test before they call the engine.
impl Interceptor for Arc<FaultSchedule> {
    fn insert_threeds_session<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        lookup: LookupPermit,
        write: ThreeDsSessionWrite,
    ) -> StoreFuture<'a, ()> {
        let id = write.session.id;
        Box::pin(
            self.pause_write(id, async move { engine.insert_threeds_session(lookup, write).await }),
        )
    }

    fn update_threeds_session<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        write: ThreeDsSessionWrite,
    ) -> StoreFuture<'a, ChangeOutcome> {
        let id = write.session.id;
        Box::pin(self.pause_write(id, async move { engine.update_threeds_session(write).await }))
    }
}

/// A card in a range with a 3DS method page.
pub const WITH_METHOD: &str = "4242424242424242";
/// A card in a range without a 3DS method page.
pub const WITHOUT_METHOD: &str = "4000056655665556";

/// The directory server of one scheme. The test provides its responses.
#[derive(Debug)]
pub struct ScheduledDirectoryServers {
    pub schedule: Arc<FaultSchedule>,
    settings: ThreeDsSettings,
    ranges: Arc<CardRanges>,
}

impl ScheduledDirectoryServers {
    pub fn new(schedule: &Arc<FaultSchedule>) -> Self {
        let build_range = |prefix: &str| {
            json!({
                "startRange": format!("{prefix}0000000000"),
                "endRange": format!("{prefix}9999999999"),
                "acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
            })
        };
        let mut range_with_method = build_range("424242");
        range_with_method["threeDSMethodURL"] = "https://acs.example/method".into();
        let message = json!({
            "messageType": "PRes", "messageVersion": "2.2.0",
            "threeDSServerTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
            "dsTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
            "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
            "serialNum": "1", "cardRangeData": [range_with_method, build_range("400005")],
        });
        let message = parse_message::<PRes>(
            message.to_string().as_bytes(),
            &TransactionContext::for_version(Version::V220),
        )
        .unwrap();
        let settings = ThreeDsSettings {
            public_url: "https://vault.example".to_owned(),
            lenient: true,
            server_name: "Vault".to_owned(),
        };
        let ranges = Arc::new(CardRanges::from_pres(&message).unwrap());
        Self { schedule: Arc::clone(schedule), settings, ranges }
    }
}

impl DirectoryServers for ScheduledDirectoryServers {
    fn settings(&self) -> &ThreeDsSettings {
        &self.settings
    }

    fn ranges(&self, _: TenantKind) -> Vec<SchemeRanges> {
        vec![SchemeRanges { scheme: Scheme::Visa, ranges: Some(Arc::clone(&self.ranges)) }]
    }

    fn connection(&self, _: TenantKind, _: Scheme) -> Option<SchemeConnection> {
        Some(scheme_connection("https://vault.example"))
    }

    fn send_message<'a>(
        &'a self,
        _: TenantKind,
        _: Scheme,
        message: Zeroizing<Vec<u8>>,
    ) -> DirectoryServerFuture<'a> {
        Box::pin(async move {
            let (response_sender, response) = oneshot::channel();
            self.schedule
                .sender
                .send(PausePoint::SendMessage(message.to_vec(), response_sender))
                .unwrap();
            response.await.unwrap_or(Err(DirectoryServerError::Broken))
        })
    }
}
