//! Requests the views of the Cluster from several nodes. Such a request is a *look*. A *view* is a node's list of all
//! nodes and their slots.

use std::time::Duration;

use ::redis::{Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::slot_map::SlotMap;
use crate::backend::redis::config::Address;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Progress, Shared, Way, open, text, ways};
use crate::backend::redis::primary::Primary;
use crate::backend::remote::{race, socket};
use crate::clock::Clock;
use crate::error::LockErrorKind;

/// The time limit for the remaining nodes after more than half have answered. A single hanging node must not slow down
/// every look.
const GRACE: Duration = Duration::from_millis(50);

/// Returns the newest view of these nodes, and whether more than half of them have answered.
///
/// Another Cluster may have taken over the address of a node. So a view that contains no node of `known` is returned
/// only if no known node answers and a node of the URL sent the view. The returned `bool` then says whether more than
/// half of the nodes of the URL sent such a view. In `nodes`, each `bool` says whether the URL names that node. A node
/// that was removed from its Cluster lists no nodes, and its view does not count.
///
/// `limit` is the time limit of every node. After the first answer, the other nodes have `patience` in total, or twice
/// the time of the first answer if that is longer.
pub(super) async fn around(
    nodes: impl Iterator<Item = (Shared<Primary>, bool)>,
    known: &SlotMap,
    (limit, mut patience): (Duration, Duration),
) -> Result<(SlotMap, bool), Failure> {
    let (mut asked, mut all_named) = (JoinSet::new(), 0);
    for (node, is_named) in nodes {
        all_named += usize::from(is_named);
        asked.spawn(async move {
            let progress = Progress::default();
            let answer = timeout(limit, ask(&node, &progress)).await;
            answer.unwrap_or_else(|_| Err(progress.out_of_time(limit))).map(|view| (view, is_named))
        });
    }
    let (count, mut views, mut failed) = (asked.len(), Vec::new(), None);
    let began = Clock::Suspend.now();
    loop {
        let passed = Clock::Suspend.now().since(began);
        let wait = match views.len() {
            0 => limit.saturating_sub(passed) + GRACE,
            most if most * 2 > count => GRACE,
            _ => patience.saturating_sub(passed) + GRACE,
        };
        // This function owns the set of requests, so the unfinished requests are cancelled when it returns.
        match timeout(wait, asked.join_next()).await {
            Ok(Some(Ok(Ok(view)))) => {
                if views.is_empty() {
                    let took = Clock::Suspend.now().since(began);
                    patience = limit.min((took * 2).max(patience));
                }
                views.push(view);
            }
            // A permanent failure is more useful to the caller than a temporary one, so it is kept.
            Ok(Some(Ok(Err(failure)))) => match &failed {
                Some(known) if Failure::is_permanent(known) => {}
                _ => failed = Some(failure),
            },
            Ok(Some(Err(_))) => {}
            Ok(None) | Err(_) => break,
        }
    }
    let answered = views.len();
    views.retain(|(view, _)| !view.tells_less_than(known));
    let is_known = |view: &SlotMap| !view.is_of_others_than(known);
    let any_known = views.iter().any(|(view, _)| is_known(view));
    views.retain(|(view, is_named)| if any_known { is_known(view) } else { *is_named });
    let count = if any_known { count } else { all_named };
    // Compares with the number of nodes that got the request, not with the number of nodes that answered.
    let most = views.len() * 2 > count;
    let views = views.into_iter().map(|(view, _)| view);
    let newest = views.reduce(|one, other| if other.is_newer_than(&one) { other } else { one });
    let nobody = || {
        let text = match answered {
            0 => "no node was asked",
            _ => "what answers where its nodes were is no part of the Cluster any more",
        };
        Failure::new(LockErrorKind::Unavailable, text)
    };
    newest.map(|view| (view, most)).ok_or_else(|| failed.unwrap_or_else(nobody))
}

/// Requests the view of one node over a connection that closes after the answer. If a name resolves to several nodes,
/// any of them may answer.
async fn ask(node: &Shared<Primary>, progress: &Progress) -> Result<SlotMap, Failure> {
    let Address::Tcp { host, port } = node.address() else {
        return Err(Failure::new(LockErrorKind::Unavailable, "no place to ask at"));
    };
    let place = (host.clone(), *port);
    let ways = ways(node, Some(&place)).await?;
    let is_one = ways.len() == 1;
    let attempts = ways.into_iter().map(|way| async move {
        let view = ask_at(node, way, is_one, progress).await?;
        if view.nodes().is_empty() && !is_one {
            return Err(Failure::new(LockErrorKind::Unavailable, "the node knows no node that has slots"));
        }
        Ok(view)
    });
    let answer = race::first(attempts, socket::HEAD_START).await;
    answer.unwrap_or_else(|| Err(Failure::new(LockErrorKind::Unavailable, "no place to ask at")))
}

async fn ask_at(
    node: &Shared<Primary>,
    way: Way<'_>,
    is_one: bool,
    progress: &Progress,
) -> Result<SlotMap, Failure> {
    // Opens a separate connection. The dial of a caller's connection waits for a look, which confirms that the node is
    // a primary. So a look that waited for a caller's connection would wait for itself.
    let (connection, _driver, _) = open(node, way, progress).await?;
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("CLUSTER").arg("INFO");
    questions.cmd("CLUSTER").arg("SLOTS");
    let answers = connection.clone().send_packed_commands(&questions, 0, 2).await;
    let answers = answers.map_err(|error| Failure::of_error(&error))?;
    let [info, slots] = answers.as_slice() else {
        return Err(Failure::new(LockErrorKind::Unavailable, "no answer"));
    };
    if let Value::ServerError(error) = slots {
        return Err(Failure::of_reply(error));
    }
    let Way::Tcp(host, address) = way else { return Err(Failure::unexpected(slots)) };
    let ip = address.ip().to_string();
    // If a name resolves to several nodes, the name does not identify a node. With TLS the name is used anyway, because
    // the certificate contains only the name.
    let host = if is_one || node.tls().is_some() { host } else { &ip };
    SlotMap::read(text(info)?, slots, host).ok_or_else(|| Failure::unexpected(slots))
}
