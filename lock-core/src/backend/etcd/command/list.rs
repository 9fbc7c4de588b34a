//! Lists the holders of keys.

use crate::backend::etcd::error::Failure;
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::Line;
use crate::backend::etcd::proto::{KeyValue, RangeRequest, RangeResponse};
use crate::backend::etcd::store::Store;
use crate::backend::remote::join_all;
use crate::backend::{Listed, LockInfo};

/// The number of entries that one request reads.
const PAGE: i64 = 1_000;

/// The number of keys whose leases are requested at once.
const KEYS_TOGETHER: usize = 32;

/// The entries of one key, in the order of their names.
#[derive(Debug, PartialEq)]
struct Key {
    name: String,
    entries: Vec<KeyValue>,
}

impl Store {
    /// Lists held keys. Each read of a page of entries, and each batch of requests for leases, has the time limit of
    /// one call.
    pub(in super::super) async fn list(
        &self,
        prefix: &str,
        foreign: bool,
        limit: usize,
    ) -> Result<Listed, Failure> {
        let (mut from, to) = keyspace::beginning_with(prefix);
        let mut locks: Vec<LockInfo> = Vec::new();
        let mut open = None;
        loop {
            let page =
                RangeRequest { key: from, range_end: to.clone(), limit: PAGE, ..RangeRequest::default() };
            let page: RangeResponse =
                self.connections.within(self.timeout(), self.call("/etcdserverpb.KV/Range", page)).await?;
            from = page.kvs.last().map(|kv| [&kv.key[..], &[0]].concat()).unwrap_or_default();
            let mut complete = complete(&mut open, page.kvs);
            if !page.more {
                complete.extend(open.take());
            }
            while !complete.is_empty() && locks.len() <= limit {
                let rest = complete.split_off(complete.len().min(KEYS_TOGETHER));
                locks.extend(self.connections.within(self.timeout(), self.infos(complete, foreign)).await?);
                complete = rest;
            }
            if !page.more || locks.len() > limit {
                return Ok(Listed::new(locks, limit));
            }
        }
    }

    /// Returns the descriptions of the keys that have a holder to show.
    async fn infos(&self, keys: Vec<Key>, foreign: bool) -> Result<Vec<LockInfo>, Failure> {
        let mut infos = Vec::with_capacity(keys.len());
        let asked = keys.into_iter().map(|key| async move {
            let line = RangeResponse { kvs: key.entries, ..RangeResponse::default() };
            self.info(&key.name, Line::new(line, 0), foreign).await
        });
        for info in join_all(asked).await {
            infos.extend(info?);
        }
        Ok(infos)
    }
}

/// Groups the entries of one page by key, and returns the complete keys. The entries of the last key may continue on
/// the next page, so that key stays `open`.
fn complete(open: &mut Option<Key>, page: Vec<KeyValue>) -> Vec<Key> {
    let mut complete = Vec::new();
    for kv in page {
        let Some(name) = keyspace::key_of_entry(&kv.key) else { continue };
        match open {
            Some(key) if key.name == name => key.entries.push(kv),
            _ => complete.extend(open.replace(Key { name, entries: vec![kv] })),
        }
    }
    complete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_a_key_may_stand_on_two_pages() {
        let page = |names: &[&str]| -> Vec<KeyValue> {
            let kv = |name: &&str| KeyValue { key: name.as_bytes().to_vec(), ..KeyValue::default() };
            names.iter().map(kv).collect()
        };
        let shown = |keys: &[Key]| -> Vec<String> {
            keys.iter().map(|key| format!("{}{}", key.name, key.entries.len())).collect()
        };
        let mut open = None;
        for (names, expected, left) in [
            (&["a/1", "a/2", "b/1"][..], &["a2"][..], "b1"),
            (&["b/2", "b/3"], &[], "b3"),
            (&["b/4", "other", "c/1", "d/1"], &["b4", "c1"], "d1"),
            (&[], &[], "d1"),
            (&["e/1"], &["d1"], "e1"),
        ] {
            assert_eq!(shown(&complete(&mut open, page(names))), expected, "{names:?}");
            assert_eq!(shown(open.as_slice()), [left], "{names:?}");
        }
    }
}
