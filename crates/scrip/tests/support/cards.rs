//! Card numbers by the thousand: distinct, valid, and unlike anything that occurs by chance.

/// The number with this place in the series. Its digits look random: a number such as
/// 4000000000000002 would be found in any file with a run of zero bytes.
pub(crate) fn card(place: u64) -> String {
    const SPACE: u128 = 100_000_000_000_000;
    // Coprime to the space, so that no two places share a number.
    let scrambled = (u128::from(place) * 61_803_398_874_989 + 31_415_926_535_897) % SPACE;
    let payload = format!("4{scrambled:014}");
    let weigh = |(at, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0');
        if at % 2 == 1 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    let sum: u32 = payload.bytes().rev().enumerate().map(weigh).sum();
    format!("{payload}{}", (10 - sum % 10) % 10)
}
