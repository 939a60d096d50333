// Labels and messages of the fields, by language. All are short: screen readers speak them.

/**
 * @typedef {object} Texts
 * @property {string} number label of the card number
 * @property {string} expiration
 * @property {string} code
 * @property {string} text label of a text field without a name
 * @property {string} card label of the group
 * @property {string} date placeholder of an expiration date
 * @property {string} incomplete the end of a message that begins with the label
 * @property {string} numberInvalid
 * @property {string} expirationInvalid
 * @property {string} codeInvalid
 * @property {string} textInvalid
 * @property {string} network question about the network of a co-badged card
 * @property {string} copy
 * @property {string} copied
 */

const KEYS = [
  "number", "expiration", "code", "text", "card", "date", "incomplete", "numberInvalid",
  "expirationInvalid", "codeInvalid", "textInvalid", "network", "copy", "copied",
];

/** @type {Record<string, string[]>} */
const LANGUAGES = {
  en: [
    "Card number", "Expiration date", "Security code", "Text", "Card", "MM / YY", " is incomplete.",
    "Card number is not valid.", "Expiration date is not valid or is in the past.",
    "Security code is not valid.", "The entry is not valid.", "Pay with", "Copy", "Copied",
  ],
  de: [
    "Kartennummer", "Ablaufdatum", "Prüfnummer", "Text", "Karte", "MM / JJ", " ist unvollständig.",
    "Kartennummer ist ungültig.", "Ablaufdatum ist ungültig oder vorbei.", "Prüfnummer ist ungültig.",
    "Die Eingabe ist ungültig.", "Bezahlen mit", "Kopieren", "Kopiert",
  ],
  fr: [
    "Numéro de carte", "Date d’expiration", "Code de sécurité", "Texte", "Carte", "MM / AA",
    " : saisie incomplète.", "Numéro de carte non valide.", "Date d’expiration non valide ou dépassée.",
    "Code de sécurité non valide.", "La saisie n’est pas valide.", "Payer avec", "Copier", "Copié",
  ],
  es: [
    "Número de tarjeta", "Fecha de vencimiento", "Código de seguridad", "Texto", "Tarjeta", "MM / AA",
    ": faltan caracteres.", "El número de tarjeta no es válido.",
    "La fecha de vencimiento no es válida o ya pasó.", "El código de seguridad no es válido.",
    "El valor no es válido.", "Pagar con", "Copiar", "Copiado",
  ],
  pt: [
    "Número do cartão", "Data de validade", "Código de segurança", "Texto", "Cartão", "MM / AA",
    ": faltam caracteres.", "O número do cartão não é válido.",
    "A data de validade não é válida ou já passou.", "O código de segurança não é válido.",
    "O valor não é válido.", "Pagar com", "Copiar", "Copiado",
  ],
  it: [
    "Numero della carta", "Data di scadenza", "Codice di sicurezza", "Testo", "Carta", "MM / AA",
    ": dato incompleto.", "Il numero della carta non è valido.",
    "La data di scadenza non è valida o è passata.", "Il codice di sicurezza non è valido.",
    "Il valore non è valido.", "Paga con", "Copia", "Copiato",
  ],
  nl: [
    "Kaartnummer", "Vervaldatum", "Beveiligingscode", "Tekst", "Kaart", "MM / JJ", " is onvolledig.",
    "Kaartnummer is ongeldig.", "Vervaldatum is ongeldig of verstreken.",
    "Beveiligingscode is ongeldig.", "De invoer is ongeldig.", "Betalen met", "Kopiëren", "Gekopieerd",
  ],
  ar: [
    "رقم البطاقة", "تاريخ الانتهاء", "رمز الأمان", "نص", "البطاقة", "MM / YY", " غير مكتمل.",
    "رقم البطاقة غير صالح.", "تاريخ الانتهاء غير صالح أو منتهٍ.", "رمز الأمان غير صالح.",
    "القيمة غير صالحة.", "الدفع باستخدام", "نسخ", "تم النسخ",
  ],
  he: [
    "מספר כרטיס", "תוקף", "קוד אבטחה", "טקסט", "כרטיס", "MM / YY", " לא הושלם.",
    "מספר הכרטיס אינו תקין.", "התוקף אינו תקין או שפג.", "קוד האבטחה אינו תקין.",
    "הערך אינו תקין.", "לשלם באמצעות", "העתקה", "הועתק",
  ],
};

/**
 * The language of a tag such as "de-AT", or English.
 * @param {unknown} tag
 */
export function languageFor(tag) {
  const language = typeof tag === "string" ? (tag.toLowerCase().split(/[-_]/)[0] ?? "") : "";
  return Object.hasOwn(LANGUAGES, language) ? language : "en";
}

/**
 * @param {unknown} tag
 * @returns {Texts}
 */
export function textsFor(tag) {
  const words = LANGUAGES[languageFor(tag)] ?? [];
  return /** @type {Texts} */ (Object.fromEntries(KEYS.map((key, index) => [key, words[index] ?? ""])));
}

/**
 * The message of an error.
 * @param {Texts} texts
 * @param {"number" | "expiration" | "code" | "text"} role
 * @param {string} label
 * @param {"incomplete" | "invalid"} error
 */
export function errorText(texts, role, label, error) {
  if (error === "invalid") return texts[/** @type {const} */ (`${role}Invalid`)];
  return label + texts.incomplete;
}
