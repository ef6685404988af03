//! A set of small numbers.

/// A bit set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    /// Adds a number. Returns whether it is new.
    pub fn insert(&mut self, number: usize) -> bool {
        let (word, bit) = (number / 64, 1 << (number % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += usize::from(new);
        new
    }

    /// Removes a number. Returns whether it was present.
    pub fn remove(&mut self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        let Some(word) = self.words.get_mut(number / 64).filter(|word| **word & bit != 0) else { return false };
        *word &= !bit;
        self.count -= 1;
        true
    }

    /// Returns whether a number is present.
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| (0..64).filter(move |bit| word & 1 << bit != 0).map(move |bit| at * 64 + bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_what_is_put_in() {
        let mut bits = Bits::default();
        assert!(bits.insert(3) && bits.insert(700) && !bits.insert(3));
        assert_eq!((bits.len(), bits.iter().collect::<Vec<_>>()), (2, vec![3, 700]));
        assert!(bits.remove(3) && !bits.remove(3) && !bits.remove(9_999) && bits.contains(700));
    }
}
