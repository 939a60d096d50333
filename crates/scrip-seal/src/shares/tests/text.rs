//! The text of a share: its form, and typing errors.

use super::*;

/// The shares of this test never change: the coefficients are fixed.
fn fixed_share() -> Share {
    let mut next = 0_u8;
    let fill = |coefficients: &mut [u8]| {
        for coefficient in coefficients {
            next = next.wrapping_mul(5).wrapping_add(3);
            *coefficient = next;
        }
    };
    let label = ShareLabel::parse("5cr1-p0t7").unwrap();
    split_with_coefficients(&secret(), label, 11, 12, fill).unwrap().pop().unwrap()
}

fn text_of(share: &Share) -> String {
    String::from_utf8(share.to_text().expose().to_vec()).unwrap()
}

#[track_caller]
fn assert_accepted(text: &str) {
    let share = Share::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(text_of(&share), text_of(&fixed_share()));
}

#[track_caller]
fn assert_rejected(text: &str) {
    let error = Share::parse(text).err();
    assert!(
        matches!(error, Some(ShareError::TypingError | ShareError::NotAShare)),
        "{text:?}: {error:?}"
    );
}

#[test]
fn text_has_prefix_label_index_threshold_and_value() {
    let text = text_of(&fixed_share());
    let parts: Vec<_> = text.split('-').collect();
    assert_eq!(parts[..5], ["scrip1", "5cr1", "p0t7", "12", "11"]);
    assert_eq!((parts.len(), parts[5].len()), (6, 60));
    let share = Share::parse(&text).unwrap();
    assert_eq!((share.index(), share.threshold()), (12, 11));
    assert_eq!(share.label(), ShareLabel::parse("5cr1-p0t7").unwrap());
    assert_eq!(share.value.expose(), fixed_share().value.expose());
}

/// A change of the form makes the shares of holders useless.
#[test]
fn text_of_a_recorded_share_is_still_accepted() {
    let text =
        "scrip1-5cr1-p0t7-12-11-mga9ybtg4zqr4e6nnmk2gngyj49mhm1xc4dezkjyztxf3vd89pyf0qxk0370";
    assert_eq!(text_of(&fixed_share()), text);
}

#[test]
fn case_spaces_line_breaks_and_similar_letters_do_not_matter() {
    let text = text_of(&fixed_share());
    let spaced: String = text.chars().flat_map(|it| [' ', it, '\t']).collect();
    let lines: String = text.chars().flat_map(|it| [it, '\r', '\n', '\u{a0}']).collect();
    let (head, value) = text.rsplit_once('-').unwrap();
    let similar = format!("{head}-{}", value.replace('0', "O").replace('1', "l"));
    assert_ne!(similar, text, "the value has a zero or a one");
    for text in [&text, &text.to_uppercase(), &spaced, &lines, &similar, &format!("\n {text}\n")] {
        assert_accepted(text);
    }
}

/// The values of the characters. Equal for two texts of the same share.
fn meaning(text: &str) -> Vec<String> {
    let text: String = text.to_lowercase().split_whitespace().collect();
    let parts = text.split('-').enumerate();
    parts
        .map(|(at, part)| match at {
            1 | 2 | 5 => part.replace('o', "0").replace(['i', 'l'], "1"),
            _ => part.to_owned(),
        })
        .collect()
}

#[test]
fn every_wrong_character_is_detected() {
    let text = text_of(&fixed_share());
    let mut wrong_count = 0;
    for at in 0..text.len() {
        for replacement in (' '..='~').chain(['é', '–', '\u{0}']) {
            let changed = format!("{}{replacement}{}", &text[..at], &text[at + 1..]);
            if meaning(&changed) != meaning(&text) {
                assert_rejected(&changed);
                wrong_count += 1;
            }
        }
    }
    assert!(wrong_count > text.len() * 90, "{wrong_count}");
}

#[test]
fn every_missing_additional_or_exchanged_character_is_detected() {
    let text = text_of(&fixed_share());
    for at in 0..text.len() {
        let (before, rest) = text.split_at(at);
        let (character, after) = rest.split_at(1);
        assert_rejected(&format!("{before}{after}"));
        for added in ('!'..='~').chain(['é']) {
            assert_rejected(&format!("{before}{added}{character}{after}"));
        }
        if let Some(next) = after.get(..1).filter(|it| *it != character) {
            assert_rejected(&format!("{before}{next}{character}{}", &after[1..]));
        }
    }
    for length in 0..text.len() {
        assert_rejected(&text[..length]);
        assert_rejected(&text[text.len() - length..]);
    }
    for added in ["0", "-", "-0", "00000000", "x", &text] {
        assert_rejected(&format!("{text}{added}"));
    }
}

#[test]
fn other_texts_are_not_shares_and_incomplete_shares_have_a_typing_error() {
    let text = text_of(&fixed_share());
    let cases = [
        (String::new(), ShareError::NotAShare),
        ("scrip".to_owned(), ShareError::NotAShare),
        (text.replace("scrip1", "scrip2"), ShareError::NotAShare),
        (text.replacen("scrip1-", "", 1), ShareError::NotAShare),
        (format!("{text}{}", " ".repeat(1024)), ShareError::NotAShare),
        ("scrip1".to_owned(), ShareError::TypingError),
        ("scrip1-----".to_owned(), ShareError::TypingError),
        (text.replace("-12-", "-012-"), ShareError::TypingError),
        (text.replace("-12-", "-+12-"), ShareError::TypingError),
        (text.replace("-12-", "-0-"), ShareError::TypingError),
        (text.replace("-12-", "-256-"), ShareError::TypingError),
        (text.replace("-11-", "-1-"), ShareError::TypingError),
        (text.replace("-11-", "--"), ShareError::TypingError),
    ];
    for (text, expected) in cases {
        assert_eq!(Share::parse(&text).err(), Some(expected), "{text}");
    }
}

/// Numbers that no split gives, with a correct checksum.
#[test]
fn impossible_numbers_and_lengths_are_rejected_despite_their_checksum() {
    let share = |index, threshold, length| Share {
        index,
        threshold,
        value: Secret::new(vec![7; length]),
        ..fixed_share()
    };
    for (index, threshold, length) in [(1, 2, 16), (255, 255, 64), (9, 3, 32)] {
        assert!(Share::parse(&text_of(&share(index, threshold, length))).is_ok());
    }
    for (index, threshold, length) in
        [(0, 2, 16), (1, 0, 16), (1, 1, 16), (1, 2, 0), (1, 2, 15), (1, 2, 65), (1, 2, 200)]
    {
        assert_rejected(&text_of(&share(index, threshold, length)));
    }
}

proptest! {
    #[test]
    fn any_text_is_rejected_without_a_panic(text in any::<String>()) {
        prop_assert!(Share::parse(&text).is_err());
    }

    #[test]
    fn any_text_of_similar_form_is_rejected(
        text in "scrip1-[0-9a-z]{4}-[0-9a-z]{4}-[0-9]{1,3}-[0-9]{1,3}-[0-9a-z]{0,120}"
    ) {
        prop_assert!(Share::parse(&text).is_err());
    }

    /// Several replaced characters.
    #[test]
    fn any_altered_text_is_rejected_or_the_same_share(
        changes in vec((any::<prop::sample::Index>(), "[0-9a-zA-Z -]"), 0..4),
    ) {
        let original = text_of(&fixed_share());
        let mut text = original.clone();
        for (at, replacement) in changes {
            let at = at.index(text.len());
            text.replace_range(at..=at, &replacement);
        }
        match Share::parse(&text) {
            Ok(share) => prop_assert_eq!(text_of(&share), original),
            Err(_) => prop_assert_ne!(meaning(&text), meaning(&original)),
        }
    }
}
