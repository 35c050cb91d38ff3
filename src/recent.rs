//! A bounded map of what was worked out before; the caller proves that it still holds.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As many values are kept. Who uses more at once gains little from any of them.
const MAX: usize = 64;

/// Values by key, shared between threads.
#[derive(Debug)]
pub(crate) struct Recent<K, V>(Mutex<HashMap<K, Arc<V>>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.lock().get(key).map(Arc::clone)
    }

    pub(crate) fn put(&self, key: K, value: Arc<V>) {
        let mut known = self.lock();
        if known.len() >= MAX && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, value);
    }

    pub(crate) fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
