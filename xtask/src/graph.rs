//! Cycles of a graph.

use std::collections::{BTreeMap, BTreeSet};

/// For each node, the nodes that it depends on.
pub type Graph<Node> = BTreeMap<Node, BTreeSet<Node>>;

/// Returns the sets of nodes that depend on each other in a cycle, the largest first.
pub fn find_cycles<Node: Clone + Ord>(graph: &Graph<Node>) -> Vec<Vec<Node>> {
    let mut cycles: Vec<Vec<Node>> = Vec::new();
    let mut assigned = BTreeSet::new();
    for node in graph.keys() {
        if assigned.contains(node) {
            continue;
        }
        let cycle: Vec<_> = list_reachable(graph, node)
            .into_iter()
            .filter(|it| list_reachable(graph, it).contains(node))
            .collect();
        assigned.extend(cycle.iter().cloned());
        if cycle.len() > 1 {
            cycles.push(cycle);
        }
    }
    cycles.sort_by_key(|it| std::cmp::Reverse(it.len()));
    cycles
}

fn list_reachable<Node: Clone + Ord>(graph: &Graph<Node>, from: &Node) -> BTreeSet<Node> {
    let mut reachable = BTreeSet::new();
    let mut pending = vec![from];
    while let Some(node) = pending.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if reachable.insert(next.clone()) {
                pending.push(next);
            }
        }
    }
    reachable
}
