//! Checks imports between files of this crate: cycles are short, and layers import only lower ones.
//!
//! Imports are `use` trees, and paths in code that start at `crate`, `super`, `self`, a child module or an imported one. Tests are excluded. There
//! are two measures: imports as written, and with re-exports followed to the defining file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Largest number of files in an import cycle.
const LIMIT: usize = 2;

/// Folders that are layers, each importing only those before it.
const LAYERS: [&[&str]; 5] = [&["device", "kernels"], &["memory"], &["data"], &["compile"], &["run"]];

/// A module's path within the crate; empty for `lib.rs`.
type Module = Vec<String>;
/// A path that a file names, and the kind of import.
struct Import {
    path: Vec<String>,
    /// Whether it is in a `use`.
    declared: bool,
    /// Whether it is in a `pub use`.
    shown: bool,
}

/// The imports of every file.
struct Sources(BTreeMap<Module, Vec<Import>>);

impl Sources {
    fn read() -> Self {
        let mut sources = Self(BTreeMap::new());
        sources.add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut vec![]);
        sources
    }

    fn add(&mut self, folder: &Path, module: &mut Module) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_string();
            if name == "tests" {
                continue;
            }
            module.push(name.clone());
            if path.is_dir() {
                self.add(&path, module);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let own = module.len() - usize::from(["mod", "lib"].contains(&name.as_str()));
                let imports = imports(&tokens(&std::fs::read_to_string(&path).unwrap()));
                self.0.insert(module[..own].to_vec(), imports);
            }
            module.pop();
        }
    }

    /// The path from the crate's root for `path` in `module`, if it starts in this crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (start, rest) = match path[0].as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                (&module[..module.len().checked_sub(up)?], &path[up..])
            }
            child => (self.0.contains_key(&[module, &[child.to_string()]].concat()).then_some(module)?, path),
        };
        Some([start, rest].concat())
    }

    /// The module that defines the item at `path`, and the item's name; `None` for the module itself.
    fn locate(&self, path: &[String], follow: bool, depth: usize) -> (Module, Option<String>) {
        let length = (0..=path.len()).rev().find(|&length| self.0.contains_key(&path[..length])).unwrap_or(0);
        let (module, name) = (path[..length].to_vec(), path.get(length).filter(|name| *name != "self"));
        let target = self.0[&module].iter().find(|import| follow && import.shown && import.path.last() == name);
        match target.and_then(|import| self.absolute(&module, &import.path)) {
            Some(target) if depth < 6 => self.locate(&target, follow, depth + 1),
            _ => (module, name.cloned()),
        }
    }

    /// The modules that each module imports from.
    fn edges(&self, follow: bool) -> BTreeMap<Module, BTreeSet<Module>> {
        let edges = self.0.iter().map(|(module, imports)| {
            let mut aliases = BTreeMap::new();
            for import in imports.iter().filter(|import| import.declared) {
                let Some(path) = self.absolute(module, &import.path) else { continue };
                if let (target, None) = self.locate(&path, follow, 0) {
                    aliases.insert(target.last().cloned(), target);
                }
            }
            let targets = imports.iter().filter_map(|import| {
                let alias = aliases.get(&Some(import.path[0].clone())).filter(|_| !import.declared);
                let aliased = alias.map(|target| [&target[..], &import.path[1..]].concat());
                let path = aliased.or_else(|| self.absolute(module, &import.path))?;
                let (target, name) = self.locate(&path, follow, 0);
                let whole = import.declared && name.is_none() && !import.shown;
                let own = import.shown && follow && target.starts_with(module);
                (!whole && !own && target != *module).then_some(target)
            });
            (module.clone(), targets.collect())
        });
        edges.collect()
    }
}

/// The tokens of a source text without comments, literals and `mod tests { .. }`.
fn tokens(text: &str) -> Vec<String> {
    let (mut tokens, mut rest): (Vec<String>, _) = (vec![], text);
    while let Some(first) = rest.chars().next() {
        let after = |end: &str| rest[1..].find(end).map_or(rest.len(), |at| 1 + at + end.len());
        let length = if rest.starts_with("//") {
            after("\n")
        } else if rest.starts_with("r#\"") {
            after("\"#")
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let before = escaped;
                escaped = c == '\\' && !before;
                c == '"' && !before
            });
            end.map_or(rest.len(), |at| at + 2)
        } else if rest.starts_with("'\"'") || rest.starts_with("'{'") || rest.starts_with("'}'") {
            3
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..length].to_string());
            length
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            tokens.extend((!first.is_whitespace()).then(|| rest[..length].to_string()));
            length
        };
        rest = &rest[length..];
    }
    while let Some(start) = tokens.windows(3).position(|next| next == ["mod", "tests", "{"]) {
        let mut depth = 0;
        let end = tokens[start..].iter().position(|token| {
            depth += i32::from(token == "{") - i32::from(token == "}");
            token == "}" && depth == 0
        });
        tokens.drain(start..=start + end.unwrap());
    }
    tokens
}

fn imports(tokens: &[String]) -> Vec<Import> {
    let (mut found, mut at) = (vec![], 0);
    while at < tokens.len() {
        if tokens[at] == "use" {
            let shown = at > 0 && ["pub", ")"].contains(&tokens[at - 1].as_str());
            let mut paths = vec![];
            at = tree(tokens, at + 1, &[], &mut paths);
            found.extend(paths.into_iter().map(|path| Import { path, declared: true, shown }));
            continue;
        }
        let starts = tokens[at].starts_with(|c: char| c.is_lowercase()) && (at == 0 || tokens[at - 1] != "::");
        let mut path = vec![tokens[at].clone()];
        while starts && tokens.get(at + 1).is_some_and(|token| token == "::") && at + 2 < tokens.len() {
            path.push(tokens[at + 2].clone());
            at += 2;
        }
        if path.len() > 1 {
            found.push(Import { path, declared: false, shown: false });
        }
        at += 1;
    }
    found
}

/// Adds the paths of the `use` tree at `at`, and returns the position after it.
fn tree(tokens: &[String], mut at: usize, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens[at].as_str() {
            "{" => {
                while tokens[at] != "}" {
                    at = if tokens[at + 1] == "}" { at + 1 } else { tree(tokens, at + 1, &path, paths) };
                }
                return at + 1;
            }
            "," | ";" | "}" => break,
            "as" => at += 1,
            "::" => {}
            segment => path.push(segment.to_string()),
        }
        at += 1;
    }
    paths.push(path);
    at
}

/// The largest set of modules that all reach each other.
fn largest_cycle(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let mut reach: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for module in edges.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![module]);
        while let Some(module) = open.pop() {
            open.extend(edges[module].iter().filter(|next| seen.insert(*next)));
        }
        reach.insert(module, seen);
    }
    let circle = |module: &Module| reach[module].iter().filter(|other| reach[*other].contains(module)).count();
    let Some(start) = edges.keys().max_by_key(|module| circle(module)) else { return vec![] };
    let members = reach[start].iter().filter(|other| reach[*other].contains(start));
    members.map(|module| module.join("::")).collect()
}

#[test]
fn files_do_not_import_each_other_in_long_circles() {
    let sources = Sources::read();
    for follow in [false, true] {
        let cycle = largest_cycle(&sources.edges(follow));
        assert!(cycle.len() <= LIMIT, "{} files, re-exports followed: {follow}: {cycle:#?}", cycle.len());
    }
}

#[test]
fn layers_import_those_below_only() {
    let sources = Sources::read();
    let layer = |module: &Module| {
        let folder = module.first()?;
        Some(LAYERS.iter().position(|names| names.contains(&folder.as_str())).expect("a folder that is in no layer"))
    };
    for follow in [false, true] {
        for (module, targets) in sources.edges(follow).iter().filter(|(module, _)| !module.is_empty()) {
            for target in targets {
                assert!(!target.is_empty(), "{} imports from the crate's root", module.join("::"));
                assert!(layer(target) <= layer(module), "{} imports {}", module.join("::"), target.join("::"));
            }
        }
    }
}
