//! Sets that nearly always have one element, but may have very many, such as the readers of a Service or the sources of
//! a host.
//!
//! A `BTreeSet` with one element allocates memory for eleven.

use std::collections::BTreeSet;

/// A sorted set. A single element is stored inline; several are stored in a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Few<T> {
    /// No elements.
    #[default]
    None,
    /// One element.
    One(T),
    /// At least two elements.
    Many(BTreeSet<T>),
}

impl<T: Ord> Few<T> {
    /// Adds an element. Returns whether it is new.
    pub fn insert(&mut self, value: T) -> bool {
        match std::mem::take(self) {
            Self::None => {
                *self = Self::One(value);
                true
            }
            Self::One(one) if one == value => {
                *self = Self::One(one);
                false
            }
            Self::One(one) => {
                *self = Self::Many(BTreeSet::from([one, value]));
                true
            }
            Self::Many(mut many) => {
                let new = many.insert(value);
                *self = Self::Many(many);
                new
            }
        }
    }

    /// Removes an element. Returns whether it was present.
    pub fn remove(&mut self, value: &T) -> bool {
        match self {
            Self::One(one) if one == value => {
                *self = Self::None;
                true
            }
            Self::Many(many) => {
                let there = many.remove(value);
                if many.len() == 1
                    && let Some(last) = many.pop_first()
                {
                    *self = Self::One(last);
                }
                there
            }
            Self::None | Self::One(_) => false,
        }
    }

    /// Returns whether the set has this element.
    pub fn contains(&self, value: &T) -> bool {
        match self {
            Self::None => false,
            Self::One(one) => one == value,
            Self::Many(many) => many.contains(value),
        }
    }

    /// Returns the elements that are not in `other`.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|value| !other.contains(value))
    }

    /// Returns whether the set has no elements.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns the sorted elements.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(one) => (Some(one), None),
            Self::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// Returns `items` sorted and without repetition, in memory of exactly their length, for sets that do not change.
pub fn set_of<T: Ord>(mut items: Vec<T>) -> Box<[T]> {
    items.sort();
    items.dedup();
    items.into()
}

/// Returns the elements of `items` that are not in `others`, which is a result of [`set_of`].
pub fn beyond<'a, T: Ord>(items: &'a [T], others: &'a [T]) -> impl Iterator<Item = &'a T> {
    items.iter().filter(|item| others.binary_search(item).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_behaves_like_a_tree() {
        let (mut few, mut tree) = (Few::default(), BTreeSet::new());
        for step in 0_u64..10_000 {
            let dice = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let value = dice % 4;
            match dice / 4 % 2 {
                0 => assert_eq!(few.insert(value), tree.insert(value)),
                _ => assert_eq!(few.remove(&value), tree.remove(&value)),
            }
            assert!(few.iter().eq(&tree), "{few:?} {tree:?}");
            assert_eq!(few.contains(&value), tree.contains(&value));
            assert!(few.difference(&Few::One(value)).all(|other| *other != value), "{few:?}");
            assert_eq!(few.is_empty(), tree.is_empty());
            assert_eq!(matches!(few, Few::Many(_)), tree.len() > 1, "equal sets are equal");
        }
    }

    #[test]
    fn a_fixed_set_is_sorted_and_has_its_exact_size() {
        let (one, other) = (set_of(vec![3, 1, 2, 3]), set_of(vec![2, 4]));
        assert_eq!(*one, [1, 2, 3]);
        assert!(beyond(&one, &other).eq(&[1, 3]));
    }
}
