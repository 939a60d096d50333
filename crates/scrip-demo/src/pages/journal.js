// Shows the steps of a payment, with the raw messages. All values are inserted as text: data from a server or a
// form is never parsed as HTML.

export class Journal {
  constructor(list, status) {
    this.list = list;
    this.status = status;
  }

  clear() {
    this.list.replaceChildren();
  }

  // The line that a screen reader reads aloud.
  say(text, isBusy) {
    this.status.textContent = text;
    this.status.classList.toggle("busy", isBusy);
  }

  begin(title, text) {
    this.say(text, true);
    return new Step(this.list, title, text);
  }
}

class Step {
  constructor(list, title, text) {
    this.began = performance.now();
    this.item = element("li", { className: "busy" });
    this.time = element("time");
    const head = element("h3");
    head.append(element("span", { textContent: title }), this.time);
    this.text = element("p", { textContent: text });
    this.item.append(head, this.text);
    list.append(this.item);
  }

  end(kind, text) {
    this.item.className = kind;
    this.text.textContent = text;
    this.time.textContent = `${Math.max(1, Math.round(performance.now() - this.began))} ms`;
  }

  // Shows request and response: each has a line with sender and path, and a value.
  show(request, response) {
    const details = element("details");
    details.append(element("summary", { textContent: "Messages" }));
    const raw = element("div", { className: "raw" });
    raw.append(figure("Request", request), figure("Response", response));
    details.append(raw);
    this.item.append(details);
  }

  // Shows a page of another origin. Its content is not available to this page.
  showFrame(title, address) {
    const panel = element("figure", { className: "foreign" });
    const caption = element("figcaption", { textContent: `${title}: a page of ${new URL(address).host}` });
    const frame = element("iframe", { title, src: address });
    frame.setAttribute("sandbox", "");
    panel.append(caption, frame);
    this.item.append(panel);
  }
}

function figure(title, { line, value }) {
  const panel = element("figure");
  const caption = element("figcaption");
  caption.append(element("b", { textContent: title }), line);
  const text = value === undefined ? "(empty)" : JSON.stringify(masked(value), null, 2);
  panel.append(caption, element("pre", { textContent: text, tabIndex: 0 }));
  return panel;
}

// Masks card numbers except for the last four digits, and all security codes. A reference to them has no digits to hide.
export function masked(value) {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value !== "object" || value === null) return value;
  const mask = (name, it) => {
    if (/^\{\{ token_intent: [0-9a-f-]+ \| json: '\$\.data\.\w+' \}\}$/.test(it)) return it;
    if (name === "number" && typeof it === "string") return it.slice(0, -4).replace(/\d/g, "•") + it.slice(-4);
    return name === "cvc" ? "•••" : masked(it);
  };
  return Object.fromEntries(Object.entries(value).map(([name, it]) => [name, mask(name, it)]));
}

export function element(name, properties = {}) {
  return Object.assign(document.createElement(name), properties);
}
