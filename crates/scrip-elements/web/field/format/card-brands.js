// The card brands: number prefixes, grouping of the digits, lengths and security code.
//
// The prefixes are those of the vault's own table (scrip-core, built_in.rs), so that a field and the
// vault name the same brand; a Rust test compares them. Two brands have a name of their own only
// here: the vault counts Maestro as Mastercard and Hiper as Hipercard. The longest matching prefix
// decides, so a wide pattern (Maestro, 6) does not hide a narrow one (Discover, 6011).
// A pattern is one prefix, or the first and the last prefix of a range.

/**
 * @typedef {object} CardBrand
 * @property {string} type
 * @property {string} niceType
 * @property {(number | [number, number])[]} patterns
 * @property {number[]} gaps
 * @property {number[]} lengths
 * @property {{ name: string, size: number }} code
 */

/** @type {readonly CardBrand[]} */
export const CARD_BRANDS = [
  {
    "type": "visa", "niceType": "Visa", "patterns": [4],
    "gaps": [4, 8, 12], "lengths": [16, 18, 19], "code": { "name": "CVV", "size": 3 }
  },
  {
    "type": "mastercard", "niceType": "Mastercard", "patterns": [[51, 55], [2221, 2720]],
    "gaps": [4, 8, 12], "lengths": [16], "code": { "name": "CVC", "size": 3 }
  },
  {
    "type": "american-express", "niceType": "American Express", "patterns": [34, 37],
    "gaps": [4, 10], "lengths": [15], "code": { "name": "CID", "size": 4 }
  },
  {
    "type": "diners-club", "niceType": "Diners Club", "patterns": [[300, 305], 3095, 36, 38, 39],
    "gaps": [4, 10], "lengths": [14, 16, 19], "code": { "name": "CVV", "size": 3 }
  },
  {
    "type": "discover", "niceType": "Discover", "patterns": [6011, [644, 649], 65],
    "gaps": [4, 8, 12], "lengths": [16, 19], "code": { "name": "CID", "size": 3 }
  },
  {
    "type": "jcb", "niceType": "JCB", "patterns": [2131, 1800, [3528, 3589]],
    "gaps": [4, 8, 12], "lengths": [16, 17, 18, 19], "code": { "name": "CVV", "size": 3 }
  },
  {
    "type": "unionpay", "niceType": "UnionPay", "patterns": [62, [8100, 8171]],
    "gaps": [4, 8, 12], "lengths": [14, 15, 16, 17, 18, 19], "code": { "name": "CVN", "size": 3 }
  },
  {
    "type": "maestro", "niceType": "Maestro",
    "patterns": [[500000, 504174], [504176, 506698], [506779, 508999], [56, 59], 63, 67, 6],
    "gaps": [4, 8, 12], "lengths": [12, 13, 14, 15, 16, 17, 18, 19], "code": { "name": "CVC", "size": 3 }
  },
  {
    "type": "elo", "niceType": "Elo",
    "patterns": [
      [401178, 401179], 431274, 438935, 451416, 457393, [457631, 457632], 504175, [506699, 506778],
      509, 627780, 636297, 636368, [650031, 650033], [650035, 650051], [650405, 650439],
      [650485, 650538], [650541, 650598], [650700, 650718], [650720, 650727], [650901, 650978],
      [651652, 651679], [655000, 655019], [655021, 655058]
    ],
    "gaps": [4, 8, 12], "lengths": [16], "code": { "name": "CVE", "size": 3 }
  },
  {
    "type": "mir", "niceType": "Mir", "patterns": [[2200, 2204]],
    "gaps": [4, 8, 12], "lengths": [16, 17, 18, 19], "code": { "name": "CVP2", "size": 3 }
  },
  {
    "type": "hiper", "niceType": "Hiper",
    "patterns": [637095, 63737423, 63743358, 637568, 637599, 637609, 637612],
    "gaps": [4, 8, 12], "lengths": [16], "code": { "name": "CVC", "size": 3 }
  },
  {
    "type": "hipercard", "niceType": "Hipercard", "patterns": [606282],
    "gaps": [4, 8, 12], "lengths": [16], "code": { "name": "CVC", "size": 3 }
  }
];
