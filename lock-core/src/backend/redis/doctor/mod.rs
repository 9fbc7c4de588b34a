//! Finds risks for the locks on a server.
//!
//! [`Facts`] are read in one round trip. Each rule is a pure function that maps the facts to at most one finding.

mod clients;
mod disk;
mod facts;
mod memory;
mod nodes;
mod replica;
mod replicas;
mod sentinels;
mod server;
#[cfg(test)]
mod tests;

use crate::backend::Finding;

pub(crate) use facts::{Facts, Kind};

/// The rules about one server. Their findings are listed in the same order.
const RULES: [fn(&Facts) -> Option<Finding>; 18] = [
    memory::eviction,
    memory::evicted,
    memory::full,
    disk::persistence,
    disk::fsync,
    disk::bgsave,
    disk::aof_write,
    replicas::failover,
    replicas::spare,
    replicas::lag,
    replicas::none,
    nodes::slots,
    nodes::full_coverage,
    clients::connected,
    clients::rejected,
    clients::idle,
    server::clock,
    server::version,
];

/// Returns the findings about one server.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    RULES.iter().filter_map(|rule| rule(facts)).chain(server::unread(facts)).collect()
}

/// Returns the findings about several servers. Equal findings are merged into one that names all its servers.
pub(crate) fn of_all(each: impl IntoIterator<Item = (String, Vec<Finding>)>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for (name, findings) in each {
        for finding in findings {
            let about =
                if finding.about.is_empty() { name.clone() } else { format!("{name}: {}", finding.about) };
            let is_same = |known: &&mut Finding| {
                (known.rule, known.severity) == (finding.rule, finding.severity)
                    && known.found == finding.found
                    && known.advice == finding.advice
            };
            match all.iter_mut().find(is_same) {
                Some(known) => {
                    known.about.push_str(", ");
                    known.about.push_str(&about);
                }
                None => all.push(finding.about(about)),
            }
        }
    }
    all
}

/// Returns the advice to change a setting, both in the running server and in its configuration file.
fn set(name: &str, value: &str) -> String {
    format!("`CONFIG SET {name} {value}`, and the line `{name} {value}` in redis.conf")
}
