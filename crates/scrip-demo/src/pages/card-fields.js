// The card fields of the demo: frames from the vault. This page sees their state, never their content.

const FIELD_STYLE = {
  base: {
    color: "#17211f",
    fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    fontSize: "16px",
    letterSpacing: "0.03em",
    padding: "10px 12px",
    "::placeholder": { color: "#66736f" },
  },
  invalid: { color: "#a3241c" },
};
const DARK_COLORS = {
  base: { color: "#e9efed", "::placeholder": { color: "#a5b3b0" } },
  invalid: { color: "#ff9f97" },
};

// The colors follow the page. A frame cannot read the page's style sheet.
export function fieldStyle() {
  const isDark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  if (!isDark) return FIELD_STYLE;
  return {
    base: { ...FIELD_STYLE.base, ...DARK_COLORS.base },
    invalid: DARK_COLORS.invalid,
  };
}

const BRANDS = {
  "american-express": "American Express",
  "diners-club": "Diners Club",
  jcb: "JCB",
  unionpay: "UnionPay",
};

export function brandName(brand) {
  if (!brand || brand === "unknown") return "";
  return BRANDS[brand] ?? brand.charAt(0).toUpperCase() + brand.slice(1);
}

const MESSAGES = {
  number: { incomplete: "Type the whole card number.", invalid: "This card number is not valid." },
  expiry: { incomplete: "Type month and year, such as 12/30.", invalid: "This card has expired." },
  cvc: { incomplete: "Type the whole security code.", invalid: "This security code is not valid." },
};

export class CardFields {
  // `elements` is an instance of the hosted fields.
  constructor(elements, { onNumber = () => {} } = {}) {
    const style = fieldStyle();
    // Some sandbox cards have a wrong checksum on purpose.
    const number = { targetId: "number", style, skipLuhnValidation: true, iconPosition: "none" };
    const expiry = { targetId: "expiry", style, placeholder: "MM/YY" };
    const cvc = { targetId: "cvc", style, placeholder: "" };
    this.fields = {
      number: elements.createElement("cardNumber", { ...number, placeholder: "", "aria-label": "Card number" }),
      expiry: elements.createElement("cardExpirationDate", { ...expiry, "aria-label": "Expiration date" }),
      cvc: elements.createElement("cardVerificationCode", { ...cvc, "aria-label": "Security code" }),
    };
    this.states = {};
    this.onNumber = onNumber;
  }

  async mount() {
    for (const [name, field] of Object.entries(this.fields)) {
      const container = document.getElementById(name);
      field.on("change", (event) => this.change(name, event));
      field.on("focus", () => container.classList.add("focused"));
      field.on("blur", () => {
        container.classList.remove("focused");
        if (this.states[name] && !this.states[name].empty) this.showError(name);
      });
      document.getElementById(`${name}-label`).addEventListener("click", () => field.focus());
    }
    await Promise.all(Object.entries(this.fields).map(([name, field]) => field.mount(`#${name}`)));
  }

  change(name, event) {
    this.states[name] = event;
    this.clearError(name);
    if (name !== "number") return;
    this.fields.cvc.update({ cardBrand: event.cardBrand });
    document.getElementById("brand").textContent = brandName(event.cardBrand);
    this.onNumber(event);
  }

  // Sandbox numbers are public, so the page may know them. A number that a payer types stays in the frame.
  async fill({ number, month, year, cvc }) {
    // The brand decides the length of the code.
    const cardBrand = number.startsWith("37") ? "american-express" : "visa";
    await Promise.all([
      this.fields.number.update({ value: number }),
      this.fields.expiry.update({ value: { month, year } }),
      this.fields.cvc.update({ cardBrand, value: cvc }),
    ]);
    Object.keys(this.fields).forEach((name) => this.clearError(name));
  }

  setDisabled(disabled) {
    return Promise.all(Object.values(this.fields).map((field) => field.update({ disabled })));
  }

  // Returns the name of the first field with an error, and shows all errors.
  findError() {
    const names = Object.keys(this.fields).filter((name) => !this.showError(name));
    return names[0];
  }

  // Returns true if the field is complete and valid.
  showError(name) {
    const { complete = false, valid = true } = this.fields[name].metadata;
    const kind = complete ? (valid ? undefined : "invalid") : this.errorKind(name);
    document.getElementById(`${name}-message`).textContent = kind ? MESSAGES[name][kind] : "";
    document.getElementById(`${name}-message`).classList.toggle("wrong", kind !== undefined);
    document.getElementById(name).classList.toggle("wrong", kind !== undefined);
    this.fields[name].validate();
    return kind === undefined;
  }

  errorKind(name) {
    const errors = this.fields[name].metadata.errors ?? [];
    return errors.some((it) => it.type === "invalid") ? "invalid" : "incomplete";
  }

  clearError(name) {
    document.getElementById(`${name}-message`).textContent = "";
    document.getElementById(name).classList.remove("wrong");
  }

  // For the `data` of a card. The vault's frames replace the fields by their values.
  data() {
    const { number, expiry, cvc } = this.fields;
    return { number, expiration_month: expiry.month(), expiration_year: expiry.year(), cvc };
  }
}

export async function loadElements() {
  const response = await fetch("/demo/settings");
  const { public_key: publicKey } = await response.json();
  if (!window.BasisTheoryElements) throw new Error("the script of the hosted fields is not loaded");
  return { publicKey, elements: await window.BasisTheoryElements.init(publicKey) };
}
