//! Rules on `Cargo.toml` files: layers, inheritance, and a reason for each external crate.
//!
//! Inside the workspace a crate is called by its folder's name, in `layers.toml`, as a key of
//! `[workspace.dependencies]` and as a key of `[dependencies]`; the rules rely on it.

use super::Finding;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// What `layers.toml` says.
pub(super) struct Layers {
    layers: BTreeMap<String, i64>,
    dev_only: Vec<String>,
    /// The layer of the facade.
    facade: Option<i64>,
    /// What is above the facade has these through it alone.
    behind_facade: Vec<String>,
}

impl Layers {
    pub(super) fn parse(text: &str) -> Result<Layers, String> {
        let root: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut layers = BTreeMap::new();
        for (name, value) in table(&root, "layers").into_iter().flatten() {
            let number = value.as_integer().ok_or(format!("the layer of `{name}` is no number"))?;
            layers.insert(name.clone(), number);
        }
        let crates = |key: &str| -> Vec<String> {
            let names = table(&root, key).and_then(|it| it.get("crates")?.as_array());
            names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (dev_only, behind_facade) = (crates("dev-only"), crates("behind-facade"));
        let facade = table(&root, "behind-facade").and_then(|it| it.get("facade")?.as_str());
        let facade = facade.and_then(|name| layers.get(name).copied());
        Ok(Layers { layers, dev_only, facade, behind_facade })
    }

    pub(super) fn is_dev_only(&self, name: &str) -> bool {
        self.dev_only.iter().any(|dev| dev == name)
    }

    fn is_ours(&self, name: &str) -> bool {
        self.layers.contains_key(name) || self.is_dev_only(name)
    }
}

/// The dependency tables of one crate: (is it `[dev-dependencies]`, name, value).
pub(super) struct Manifest {
    dependencies: Vec<(bool, String, Value)>,
}

impl Manifest {
    pub(super) fn parse(text: &str) -> Result<Manifest, String> {
        let root: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let per_target =
            table(&root, "target").into_iter().flatten().filter_map(|(_, v)| v.as_table());
        let mut dependencies = Vec::new();
        for owner in std::iter::once(&root).chain(per_target) {
            for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
                let dev = section == "dev-dependencies";
                for (name, value) in table(owner, section).into_iter().flatten() {
                    dependencies.push((dev, name.clone(), value.clone()));
                }
            }
        }
        Ok(Manifest { dependencies })
    }
}

fn table<'a>(owner: &'a Table, key: &str) -> Option<&'a Table> {
    owner.get(key)?.as_table()
}

/// Every folder of `crates/` has a line in `layers.toml`. A line may come before its crate.
pub(super) fn every_crate_has_a_layer(layers: &Layers, folders: &[&str]) -> Vec<Finding> {
    let missing = folders.iter().filter(|folder| !layers.is_ours(folder));
    missing.map(|folder| Finding::new(0, format!("crate `{folder}` has no layer"))).collect()
}

/// A crate depends only on smaller layers; one above the facade, tests apart, on nothing that is
/// behind it. Dev-only crates may depend on anything; others reach them by `[dev-dependencies]`
/// alone.
pub(super) fn dependencies_point_down(
    layers: &Layers,
    folder: &str,
    manifest: &Manifest,
) -> Vec<Finding> {
    let Some(own) = layers.layers.get(folder) else { return Vec::new() };
    let mut findings = Vec::new();
    for (dev, name, _) in &manifest.dependencies {
        match layers.layers.get(name) {
            Some(layer) if layer >= own => findings.push(Finding::new(
                0,
                format!("`{folder}` (layer {own}) must not depend on `{name}` (layer {layer})"),
            )),
            Some(_)
                if !dev
                    && layers.facade.is_some_and(|facade| *own > facade)
                    && layers.behind_facade.contains(name) =>
            {
                findings.push(Finding::new(
                    0,
                    format!("`{folder}` is above the facade: it must have `{name}` through that"),
                ));
            }
            None if layers.is_dev_only(name) && !dev => findings.push(Finding::new(
                0,
                format!("`{name}` is for tests: only [dev-dependencies] may name it"),
            )),
            _ => {}
        }
    }
    findings
}

/// Versions, paths and features live in the root manifest: crates write `workspace = true`.
pub(super) fn dependencies_are_inherited(manifest: &Manifest) -> Vec<Finding> {
    let inherited = |value: &Value| value.get("workspace").and_then(Value::as_bool) == Some(true);
    let own = manifest.dependencies.iter().filter(|(_, _, value)| !inherited(value));
    own.map(|(_, name, _)| Finding::new(0, format!("`{name}` must be `workspace = true`")))
        .collect()
}

/// Above every external crate of `[workspace.dependencies]` stands a comment `# name: reason`.
pub(super) fn externals_state_a_reason(root_manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    let mut comment = String::new();
    for (index, line) in root_manifest.lines().map(str::trim).enumerate() {
        if let Some(words) = line.strip_prefix('#') {
            comment.push_str(words);
            continue;
        }
        let external = if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
            line.strip_prefix("[workspace.dependencies.").and_then(|rest| rest.strip_suffix(']'))
        } else {
            let entry = line.split_once('=').filter(|_| inside);
            entry.filter(|(_, value)| !value.contains("path")).map(|(key, _)| key.trim())
        };
        if let Some(name) = external {
            let reason = comment.trim().strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
            if reason.is_none_or(|reason| reason.trim().is_empty()) {
                let wanted = format!("`{name}` needs a comment above it: `# {name}: reason`");
                findings.push(Finding::new(index + 1, wanted));
            }
        }
        comment.clear();
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> Layers {
        let text = "[layers]\nlow = 0\nmid = 1\nside = 1\nhigh = 2\n\
                    [dev-only]\ncrates = [\"kit\"]";
        Layers::parse(text).unwrap()
    }

    fn messages(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.message).collect()
    }

    fn down(folder: &str, manifest: &str) -> Vec<String> {
        let manifest = Manifest::parse(manifest).unwrap();
        messages(dependencies_point_down(&layers(), folder, &manifest))
    }

    #[test]
    fn crates_without_a_layer_are_named() {
        let found = messages(every_crate_has_a_layer(&layers(), &["low", "kit", "stray"]));
        assert_eq!(found, ["crate `stray` has no layer"]);
        // The rows `mid`, `side` and `high` are of crates to come.
        assert_eq!(messages(every_crate_has_a_layer(&layers(), &["low"])), [""; 0]);
    }

    #[test]
    fn what_is_behind_the_facade_is_had_through_it() {
        let text = "[layers]\npass = 0\nfacade = 1\nlook = 2\n\
                    [behind-facade]\nfacade = \"facade\"\ncrates = [\"pass\"]";
        let layers = Layers::parse(text).unwrap();
        let found = |folder, manifest| {
            let manifest = Manifest::parse(manifest).unwrap();
            messages(dependencies_point_down(&layers, folder, &manifest))
        };
        assert_eq!(found("facade", "[dependencies]\npass = {}"), [""; 0]);
        assert_eq!(found("look", "[dev-dependencies]\npass = {}"), [""; 0]);
        assert_eq!(
            found("look", "[dependencies]\npass = {}\nfacade = {}"),
            ["`look` is above the facade: it must have `pass` through that"]
        );
    }

    #[test]
    fn layers_point_down() {
        assert_eq!(down("high", "[dependencies]\nlow.workspace = true\nserde = \"1\""), [""; 0]);
        let up = "`mid` (layer 1) must not depend on `high` (layer 2)";
        let across = "`mid` (layer 1) must not depend on `side` (layer 1)";
        assert_eq!(down("mid", "[dependencies]\nhigh = {}\nside = {}\nlow = {}"), [up, across]);
        assert_eq!(down("mid", "[build-dependencies]\nhigh = {}"), [up]);
        assert_eq!(down("mid", "[target.'cfg(unix)'.dependencies]\nhigh = {}"), [up]);
        assert_eq!(down("mid", "[dev-dependencies]\nside = {}"), [across]);
    }

    #[test]
    fn dev_only_crates_are_reached_by_tests_alone() {
        assert_eq!(down("kit", "[dependencies]\nhigh = {}"), [""; 0]);
        assert_eq!(down("low", "[dev-dependencies]\nkit = {}"), [""; 0]);
        let found = down("low", "[dependencies]\nkit = {}");
        assert_eq!(found, ["`kit` is for tests: only [dev-dependencies] may name it"]);
    }

    #[test]
    fn versions_are_inherited() {
        let text = "[dependencies]\na.workspace = true\nb = { workspace = true }\nc = \"1\"\n\
                    d = { version = \"1\" }";
        let found = messages(dependencies_are_inherited(&Manifest::parse(text).unwrap()));
        assert_eq!(found, ["`c` must be `workspace = true`", "`d` must be `workspace = true`"]);
    }

    #[test]
    fn externals_need_a_reason_of_their_own() {
        let text = "[workspace.dependencies]\nown = { path = \"crates/own\" }\n\
                    # good: a reason\n# in two lines.\ngood = \"1\"\nbare = \"1\"\n\
                    # good: of another\nother = \"1\"\n\
                    [workspace.dependencies.long]\nversion = \"1\"\n\
                    [profile.dev]\nopt-level = 1";
        let lines: Vec<usize> = externals_state_a_reason(text).iter().map(|f| f.line).collect();
        assert_eq!(lines, [6, 8, 9]);
    }
}
