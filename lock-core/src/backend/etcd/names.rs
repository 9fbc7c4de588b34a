//! The names that released entries have left, for the next claims of their keys.
//!
//! etcd walks over every name that was ever used in a line, until its history is compacted. So a key that is locked again
//! and again by one process has as many names as it has had entries of that process at once, and not one for each lock.
//! A name is lost where something in doubt is under way, and where the key stays taken after the release.
//!
//! A name says nothing of who has it: an entry is its owner's by its value, and a request that changes one also names the
//! revision at which it was read, or its lease. So a request of the owner before, or of another process that has chosen
//! the same name, changes nothing.

use std::collections::HashMap;

use super::keyspace;

/// How many there are at most. Then those of some line are forgotten.
const MOST: usize = 4_096;

/// The names that may be used again. As far as this process knows, no entry has any of them.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The stored keys of each line.
    free: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    count: usize,
}

impl Names {
    /// Returns the stored key for the entry that has `page`, with a name that was used before if there is one.
    pub(super) fn choose(&mut self, page: &[u8]) -> Vec<u8> {
        let line = keyspace::line_of(page);
        let Some(names) = self.free.get_mut(line) else { return keyspace::new_entry(line) };
        let name = names.pop();
        if names.is_empty() {
            self.free.remove(line);
        }
        let Some(name) = name else { return keyspace::new_entry(line) };
        self.count -= 1;
        name
    }

    /// Takes the stored key of an entry that is gone.
    pub(super) fn leave(&mut self, stored: Vec<u8>) {
        if self.count >= MOST
            && let Some(line) = self.free.keys().next().cloned()
            && let Some(names) = self.free.remove(&line)
        {
            self.count -= names.len();
        }
        let names = self.free.entry(keyspace::line_of(&stored).to_vec()).or_default();
        // Two releases of one entry may leave it.
        if !names.contains(&stored) {
            names.push(stored);
            self.count += 1;
        }
    }
}

impl Extend<Vec<u8>> for Names {
    fn extend<I: IntoIterator<Item = Vec<u8>>>(&mut self, left: I) {
        left.into_iter().for_each(|stored| self.leave(stored));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_used_again_in_its_line_by_one_at_a_time() {
        let mut names = Names::default();
        let [one, other] = [names.choose(b"a/1"), names.choose(b"a/2")];
        assert!(one.starts_with(b"a/") && one != other, "{one:?}");
        names.leave(one.clone());
        for _ in 0..2 {
            names.leave(other.clone());
        }
        assert!(names.choose(b"b/1").starts_with(b"b/"));
        assert_eq!([names.choose(b"a/3"), names.choose(b"a/4")], [other.clone(), one.clone()]);
        assert!(![one, other].contains(&names.choose(b"a/5")));
        assert_eq!((names.count, names.free.len()), (0, 0));
    }

    #[test]
    fn there_are_not_too_many() {
        let mut names = Names::default();
        for number in 0..MOST * 3 {
            names.leave(format!("{number}/name").into_bytes());
            assert!(names.count <= MOST && names.free.len() == names.count);
        }
    }
}
