// Checks of the card form: brand, spacing and validation.

const BRANDS = [
  { name: "American Express", prefix: /^3[47]/, lengths: [15], groups: [4, 6, 5], code: 4 },
  { name: "Diners Club", prefix: /^3(0[0-5]|[689])/, lengths: [14, 16], groups: [4, 6, 4] },
  { name: "JCB", prefix: /^35(2[89]|[3-8])/, lengths: [16] },
  { name: "Visa", prefix: /^4/, lengths: [13, 16, 19] },
  { name: "Mastercard", prefix: /^(5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/, lengths: [16] },
  { name: "Discover", prefix: /^(6011|64[4-9]|65)/, lengths: [16, 19] },
  { name: "UnionPay", prefix: /^62/, lengths: [16, 17, 18, 19] },
  { name: "Maestro", prefix: /^(50|5[6-9]|6)/, lengths: [13, 14, 15, 16, 17, 18, 19] },
];

export const digitsOf = (text) => text.replace(/\D/g, "");

export function brandOf(number) {
  return BRANDS.find((it) => it.prefix.test(number)) ?? null;
}

// Grouped as on the printed card.
export function spaced(number) {
  const groups = brandOf(number)?.groups ?? [4, 4, 4, 4, 3];
  const parts = [];
  let at = 0;
  for (const length of groups) {
    if (at >= number.length) break;
    parts.push(number.slice(at, at + length));
    at += length;
  }
  return [...parts, number.slice(at)].filter(Boolean).join(" ");
}

export function passesLuhn(number) {
  const doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
  const sum = [...number].reverse().reduce((it, digit, at) => it + (at % 2 ? doubled[digit] : Number(digit)), 0);
  return sum % 10 === 0;
}

export function spacedExpiry(text, isErasing) {
  const digits = digitsOf(text).slice(0, 4);
  if (digits.length === 1 && digits > "1") return `0${digits}/`;
  if (digits.length < 2 || (digits.length === 2 && isErasing)) return digits;
  return `${digits.slice(0, 2)}/${digits.slice(2)}`;
}

export function expiryOf(text) {
  const found = /^\s*(\d{1,2})\s*\/\s*(?:20)?(\d{2})\s*$/.exec(text);
  const [month, year] = found ? [Number(found[1]), 2000 + Number(found[2])] : [0, 0];
  return month >= 1 && month <= 12 ? { month, year } : null;
}

// Each rule returns an error, a hint or nothing. The last digit is a checksum. Some sandbox cards fail it on
// purpose, so a wrong checksum is only a hint.
export const rules = {
  number(text, isSandbox) {
    const number = digitsOf(text);
    const brand = brandOf(number);
    if (number === "") return { wrong: "Type a card number, or pick a sandbox card." };
    if (number.length < 13) return { wrong: "This number is too short." };
    if (isSandbox) return {};
    if (brand && !brand.lengths.includes(number.length)) {
      return { wrong: `A ${brand.name} number has ${brand.lengths.join(" or ")} digits.` };
    }
    return passesLuhn(number) ? {} : { hint: "The last digit does not match the checksum. Is there a typo?" };
  },
  expiry(text, now) {
    const expiry = expiryOf(text);
    if (!expiry) return { wrong: "Type month and year, such as 12/30." };
    const isExpired = expiry.year * 12 + expiry.month < now.getFullYear() * 12 + now.getMonth() + 1;
    return isExpired ? { wrong: "This card has expired." } : {};
  },
  cvc(text, brand) {
    const length = brand?.code ?? 3;
    return digitsOf(text).length === length ? {} : { wrong: `Type the ${length} digits.` };
  },
  name: (text) => (text.trim().length >= 2 ? {} : { wrong: "Type the name on the card." }),
  email: (text) => (/^[^@\s]+@[^@\s]+$/.test(text.trim()) ? {} : { wrong: "Type an email address." }),
};
