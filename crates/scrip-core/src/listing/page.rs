//! Pages by number, with totals, and pages by cursor.

use scrip_seal::Sealed;

/// The number and size of a requested page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// The first page is 1.
    pub number: usize,
    pub size: usize,
}

pub const PAGE_SIZE_DEFAULT: usize = 20;
pub const PAGE_SIZE_MAX: usize = 100;

impl Default for PageRequest {
    fn default() -> Self {
        Self { number: 1, size: PAGE_SIZE_DEFAULT }
    }
}

/// A page of a list, and the number of all items.
#[derive(Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub request: PageRequest,
    pub total: usize,
}

/// The start and size of a requested page of a list with a cursor.
#[derive(Debug)]
pub struct CursorRequest {
    pub start: Option<Sealed>,
    pub size: usize,
}

/// A page of a list with a cursor.
#[derive(Debug)]
pub struct CursorPage<T> {
    pub items: Vec<T>,
    pub size: usize,
    /// `None` on the last page.
    pub next: Option<Sealed>,
}

impl<T: Clone> Page<T> {
    /// Takes the requested page out of all items.
    pub fn from_all(items: &[&T], request: PageRequest) -> Self {
        let offset = request.number.saturating_sub(1).saturating_mul(request.size);
        let page = items.iter().skip(offset).take(request.size).copied().cloned().collect();
        Self { items: page, request, total: items.len() }
    }
}

impl<T> Page<T> {
    pub fn total_pages(&self) -> usize {
        self.total.div_ceil(self.request.size.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: usize, size: usize, expected: &[u8], total_pages: usize) {
        let items = [1, 2, 3, 4, 5];
        let page = Page::from_all(&items.iter().collect::<Vec<_>>(), PageRequest { number, size });
        assert_eq!(page.items, expected, "page {number} of size {size}");
        assert_eq!((page.total, page.total_pages()), (5, total_pages));
    }

    #[test]
    fn page_contains_its_items_and_the_number_of_all_pages() {
        check(1, 2, &[1, 2], 3);
        check(3, 2, &[5], 3);
        check(4, 2, &[], 3);
        check(1, 100, &[1, 2, 3, 4, 5], 1);
        check(usize::MAX, usize::MAX, &[], 1);
    }
}
