//! A stage on which every write of a session, and every question to a directory server, waits for a
//! word of the test: so whatever can happen between two steps of an operation happens there.

use std::{pin::Pin, sync::Arc};

use scrip_core::{
    id::SessionId,
    policy::{Inquiry, TenantKind},
    store::{Changed, Store, StoreError, StoreFuture},
    threeds::{Asking, DirectoryServers, Link, SchemeRanges, SessionWrite, Terms, Unanswered},
};
use scrip_threeds::{
    code::Scheme,
    format::Version,
    message::{Message, PRes, Scene},
    range::CardRanges,
};
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};
use zeroize::Zeroizing;

use crate::{directory_server::link_with, faults::intercepted_store::Interceptor};

/// Where an operation waits.
#[derive(Debug)]
pub enum Point {
    /// About to write this session.
    Write(SessionId, oneshot::Sender<Order>),
    /// About to ask this.
    Ask(Vec<u8>, oneshot::Sender<Result<Vec<u8>, Unanswered>>),
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Go,
    Fail,
    /// It is written, and nobody hears of it.
    GoAndFail,
}

/// What an operation came to.
#[derive(Debug)]
pub enum Reached<T> {
    End(T),
    Point(Point),
}

#[derive(Debug)]
pub struct FaultSchedule {
    sender: mpsc::UnboundedSender<Point>,
    points: Mutex<mpsc::UnboundedReceiver<Point>>,
}

impl FaultSchedule {
    pub fn new() -> Arc<Self> {
        let (sender, points) = mpsc::unbounded_channel();
        Arc::new(Self { sender, points: Mutex::new(points) })
    }

    /// Lets an operation run to its end, or to where it waits.
    pub async fn run<T>(
        &self,
        operation: &mut Pin<Box<dyn Future<Output = T> + '_>>,
    ) -> Reached<T> {
        let mut points = self.points.lock().await;
        tokio::select! {
            biased;
            end = operation => Reached::End(end),
            point = points.recv() => Reached::Point(point.unwrap()),
        }
    }

    async fn write<T>(
        &self,
        id: SessionId,
        write: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (order, ordered) = oneshot::channel();
        self.sender.send(Point::Write(id, order)).unwrap();
        let broken = || StoreError::Unavailable("the test says so".into());
        match ordered.await {
            Ok(Order::Go) => write.await,
            Ok(Order::GoAndFail) => write.await.and(Err(broken())),
            Ok(Order::Fail) | Err(_) => Err(broken()),
        }
    }
}

/// Session writes wait for the test; the engine is not called before its turn.
impl Interceptor for Arc<FaultSchedule> {
    fn insert_session<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        inquiry: Inquiry,
        write: SessionWrite,
    ) -> StoreFuture<'a, ()> {
        let id = write.session.id;
        Box::pin(self.write(id, async move { engine.insert_session(inquiry, write).await }))
    }

    fn update_session<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        write: SessionWrite,
    ) -> StoreFuture<'a, Changed> {
        let id = write.session.id;
        Box::pin(self.write(id, async move { engine.update_session(write).await }))
    }
}

/// Cards with this beginning have a page that runs before.
pub const WITH_METHOD: &str = "4242424242424242";
pub const WITHOUT_METHOD: &str = "4000056655665556";

/// The directory server of one scheme, which says what the test says.
#[derive(Debug)]
pub struct Script {
    pub stage: Arc<FaultSchedule>,
    terms: Terms,
    ranges: Arc<CardRanges>,
}

impl Script {
    pub fn new(stage: &Arc<FaultSchedule>) -> Self {
        let range = |from: &str| {
            json!({
                "startRange": format!("{from}0000000000"), "endRange": format!("{from}9999999999"),
                "acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
            })
        };
        let mut method = range("424242");
        method["threeDSMethodURL"] = "https://acs.example/method".into();
        let told = json!({
            "messageType": "PRes", "messageVersion": "2.2.0",
            "threeDSServerTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
            "dsTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
            "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
            "serialNum": "1", "cardRangeData": [method, range("400005")],
        });
        let told = PRes::parse(told.to_string().as_bytes(), &Scene::of(Version::V220)).unwrap();
        let terms = Terms {
            public_url: "https://vault.example".to_owned(),
            lenient: true,
            server_name: "Vault".to_owned(),
        };
        let ranges = Arc::new(CardRanges::of(&told).unwrap());
        Self { stage: Arc::clone(stage), terms, ranges }
    }
}

impl DirectoryServers for Script {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn ranges(&self, _: TenantKind) -> Vec<SchemeRanges> {
        vec![SchemeRanges { scheme: Scheme::Visa, ranges: Some(Arc::clone(&self.ranges)) }]
    }

    fn link(&self, _: TenantKind, _: Scheme) -> Option<Link> {
        Some(link_with("https://vault.example"))
    }

    fn ask<'a>(&'a self, _: TenantKind, _: Scheme, message: Zeroizing<Vec<u8>>) -> Asking<'a> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.stage.sender.send(Point::Ask(message.to_vec(), answer)).unwrap();
            answered.await.unwrap_or(Err(Unanswered::Broken))
        })
    }
}
