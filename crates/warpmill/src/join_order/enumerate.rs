//! The search for the cheapest join tree.
//!
//! Up to [`EXHAUSTIVE_LEAVES`] connected relations all trees without cross products are compared by DPhyp, which
//! enumerates exactly the connected pairs of connected subgraphs of a hypergraph (Moerkotte, Neumann: Dynamic
//! Programming Strikes Back, SIGMOD 2008, section 3). Larger or denser graphs, and cross products between unconnected components, are ordered
//! greedily by smallest result (Fegaras: A New Heuristic for Optimizing Large Queries, DEXA 1998).

use hashbrown::HashMap;

use super::graph::JoinGraph;
use super::tree::{JoinTree, members};

/// Most relations of one connected component that are ordered exhaustively.
const EXHAUSTIVE_LEAVES: u32 = 12;
/// Most pairs and subgraphs that the exhaustive search visits before it is given up (about 10 ms).
const MOST_STEPS: usize = 100_000;

/// The best tree found over all leaves of `graph`.
pub(super) fn best_tree(graph: &JoinGraph) -> JoinTree {
    let mut parts = vec![];
    for component in components(graph) {
        let exhaustive = component.count_ones() <= EXHAUSTIVE_LEAVES;
        match exhaustive.then(|| DpHyp::new(graph, component).solve()).flatten() {
            Some(tree) => parts.push(tree),
            None => parts.push(greedy(graph, members(component).map(JoinTree::Leaf).collect())),
        }
    }
    greedy(graph, parts)
}

/// The sets of leaves that predicates connect; a hyperedge connects two sets that hold its sides.
fn components(graph: &JoinGraph) -> Vec<u64> {
    let mut sets: Vec<u64> = (0..graph.leaf_count()).map(|i| 1 << i).collect();
    loop {
        let connected = (0..sets.len())
            .flat_map(|i| (i + 1..sets.len()).map(move |j| (i, j)))
            .find(|(i, j)| graph.are_connected(sets[*i], sets[*j]));
        let Some((i, j)) = connected else { return sets };
        let merged = sets.swap_remove(j);
        sets[i] |= merged;
    }
}

/// A join of two trees, the smaller one as the build side on the left.
fn oriented(graph: &JoinGraph, a: JoinTree, b: JoinTree) -> JoinTree {
    let (rows_a, rows_b) = (graph.cardinality(a.leaves()), graph.cardinality(b.leaves()));
    if rows_b < rows_a { JoinTree::join(b, a) } else { JoinTree::join(a, b) }
}

/// Joins `parts` by smallest result first; unconnected parts only when nothing else is left.
fn greedy(graph: &JoinGraph, parts: Vec<JoinTree>) -> JoinTree {
    let mut parts: Vec<(u64, JoinTree)> = parts.into_iter().map(|p| (p.leaves(), p)).collect();
    let mut known: HashMap<(u64, u64), (bool, f64)> = HashMap::new();
    while parts.len() > 1 {
        let mut best: Option<((bool, f64), usize, usize)> = None;
        for i in 0..parts.len() {
            for j in i + 1..parts.len() {
                let (l, r) = (parts[i].0, parts[j].0);
                // Pairs without a key come last; of equal results, the first pair.
                let rank = *known.entry((l, r)).or_insert_with(|| rank(graph, l, r));
                if best.is_none_or(|(least, ..)| (rank.0, rank.1) < least) {
                    best = Some((rank, i, j));
                }
            }
        }
        let Some((_, i, j)) = best else { break };
        let (right_set, right) = parts.remove(j);
        let (left_set, left) = parts.remove(i);
        parts.insert(i, (left_set | right_set, oriented(graph, left, right)));
    }
    parts.pop().map_or(JoinTree::Leaf(0), |(_, tree)| tree)
}

fn rank(graph: &JoinGraph, left: u64, right: u64) -> (bool, f64) {
    (!graph.has_key(left, right), graph.cardinality(left | right))
}

/// The cheapest known plan of a set of leaves.
#[derive(Debug, Clone, Copy)]
struct Plan {
    cost: f64,
    rows: f64,
    /// The build side, or 0 for a leaf.
    left: u64,
}

struct DpHyp<'a> {
    graph: &'a JoinGraph,
    component: u64,
    plans: HashMap<u64, Plan>,
    steps: usize,
}

impl<'a> DpHyp<'a> {
    fn new(graph: &'a JoinGraph, component: u64) -> Self {
        Self { graph, component, plans: HashMap::new(), steps: 0 }
    }

    /// The best tree of the component; `None` when the search grew too large or hyperedges allow no tree.
    fn solve(mut self) -> Option<JoinTree> {
        for leaf in members(self.component) {
            let rows = self.graph.cardinality(1 << leaf);
            self.plans.insert(1 << leaf, Plan { cost: 0.0, rows, left: 0 });
        }
        for leaf in members(self.component).rev() {
            let set = 1 << leaf;
            self.emit_subgraph(set);
            self.enumerate_subgraphs(set, up_to(leaf));
        }
        let complete = self.steps <= MOST_STEPS && self.plans.contains_key(&self.component);
        complete.then(|| self.tree(self.component))
    }

    fn tree(&self, set: u64) -> JoinTree {
        match self.plans[&set].left {
            0 => JoinTree::Leaf(set.trailing_zeros() as usize),
            left => JoinTree::join(self.tree(left), self.tree(set & !left)),
        }
    }

    /// The leaves next to `set` outside `excluded`; a hyperedge's far side is represented by its first leaf.
    fn neighborhood(&self, set: u64, excluded: u64) -> u64 {
        let barred = set | excluded;
        let mut near = members(set).fold(0, |near, i| near | self.graph.neighbors[i]) & !barred & self.component;
        for edge in &self.graph.hyper_edges {
            for (own, far) in [(edge.left, edge.right), (edge.right, edge.left)] {
                if own & !set == 0 && far & barred == 0 && far & !self.component == 0 && far & near == 0 {
                    near |= far & far.wrapping_neg();
                }
            }
        }
        near
    }

    /// `EnumerateCsgRec`: grows a connected subgraph by its neighbors.
    fn enumerate_subgraphs(&mut self, set: u64, excluded: u64) {
        let near = self.neighborhood(set, excluded);
        for more in subsets(near) {
            if self.exhausted() {
                return;
            }
            if self.plans.contains_key(&(set | more)) {
                self.emit_subgraph(set | more);
            }
        }
        for more in subsets(near) {
            if self.exhausted() {
                return;
            }
            self.enumerate_subgraphs(set | more, excluded | near);
        }
    }

    /// `EmitCsg`: finds the connected complements of a connected subgraph.
    fn emit_subgraph(&mut self, set: u64) {
        let excluded = set | up_to(set.trailing_zeros() as usize);
        let near = self.neighborhood(set, excluded);
        for leaf in members(near).rev() {
            let complement = 1 << leaf;
            if self.graph.are_connected(set, complement) {
                self.emit_pair(set, complement);
            }
            self.enumerate_complements(set, complement, excluded | (up_to(leaf) & near));
        }
    }

    /// `EnumerateCmpRec`: grows a complement by its neighbors.
    fn enumerate_complements(&mut self, set: u64, complement: u64, excluded: u64) {
        let near = self.neighborhood(complement, excluded);
        for more in subsets(near) {
            if self.exhausted() {
                return;
            }
            let grown = complement | more;
            if self.plans.contains_key(&grown) && self.graph.are_connected(set, grown) {
                self.emit_pair(set, grown);
            }
        }
        for more in subsets(near) {
            if self.exhausted() {
                return;
            }
            self.enumerate_complements(set, complement | more, excluded | near);
        }
    }

    /// `EmitCsgCmp`: prices the join of two sets.
    fn emit_pair(&mut self, a: u64, b: u64) {
        let (Some(plan_a), Some(plan_b)) = (self.plans.get(&a).copied(), self.plans.get(&b).copied()) else { return };
        let known = self.plans.get(&(a | b)).copied();
        let rows = known.map_or_else(|| self.graph.cardinality(a | b), |plan| plan.rows);
        let (left, build, probe) = if plan_b.rows < plan_a.rows { (b, plan_b, plan_a) } else { (a, plan_a, plan_b) };
        let cost =
            plan_a.cost + plan_b.cost + JoinGraph::join_cost(rows, build.rows, probe.rows, self.graph.has_key(a, b));
        if known.is_none_or(|plan| cost < plan.cost) {
            self.plans.insert(a | b, Plan { cost, rows, left });
        }
    }

    fn exhausted(&mut self) -> bool {
        self.steps += 1;
        self.steps > MOST_STEPS
    }
}

/// All leaves up to and including `leaf`.
fn up_to(leaf: usize) -> u64 {
    u64::MAX >> (63 - leaf)
}

/// The non-empty subsets of `set`, a subset always before its supersets.
fn subsets(set: u64) -> impl Iterator<Item = u64> {
    let mut current = 0u64;
    std::iter::from_fn(move || {
        current = current.wrapping_sub(set) & set;
        (current != 0).then_some(current)
    })
}
