//! Values that many configurations share, copied only on write.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value with cheap copies. With tens of thousands of jobs that change one by one, every configuration shares all jobs but one with the
/// configuration before it.
#[derive(Clone, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Shared(Arc::new(value))
    }

    /// Returns whether both are the same value, and therefore equal. Two different values may also be equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared::new(value)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Writing copies a shared value first.
impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || *self.0 == *other.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a, T> IntoIterator for &'a Shared<Vec<T>> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<Vec<T>> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same_until_it_is_written() {
        let one = Shared::new(vec![1, 2]);
        let mut other = one.clone();
        assert!(one.is_same(&other));
        other[0] = 3;
        assert!(!one.is_same(&other) && one != other);
        assert_eq!(*one, [1, 2]);
        other[0] = 1;
        assert!(!one.is_same(&other) && one == other, "equal, but another");
        for number in &mut other {
            *number += 1;
        }
        assert_eq!((&other).into_iter().sum::<i32>(), 5);
        assert_eq!(format!("{other:?}"), "[2, 3]");
    }
}
