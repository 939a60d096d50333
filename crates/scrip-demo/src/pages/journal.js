// What happens, told step by step, with the raw messages for whoever wants them. Everything is put in as text:
// nothing that comes from a server or a form is ever read as HTML.

export class Journal {
  constructor(list, status) {
    this.list = list;
    this.status = status;
  }

  clear() {
    this.list.replaceChildren();
  }

  // The one line that a screen reader speaks.
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

  // What was sent beside what came back: each a line of who to whom, and a value.
  show(sent, got) {
    const details = element("details");
    details.append(element("summary", { textContent: "Messages" }));
    const raw = element("div", { className: "raw" });
    raw.append(figure("Sent", sent), figure("Answered", got));
    details.append(raw);
    this.item.append(details);
  }
}

function figure(title, { line, value }) {
  const shown = element("figure");
  const caption = element("figcaption");
  caption.append(element("b", { textContent: title }), line);
  const text = value === undefined ? "(empty)" : JSON.stringify(covered(value), null, 2);
  shown.append(caption, element("pre", { textContent: text, tabIndex: 0 }));
  return shown;
}

// Of a card nothing but its end, and of its code nothing.
export function covered(value) {
  if (Array.isArray(value)) return value.map(covered);
  if (typeof value !== "object" || value === null) return value;
  const cover = (name, it) => {
    if (name === "number" && typeof it === "string") return it.slice(0, -4).replace(/\d/g, "•") + it.slice(-4);
    return name === "cvc" ? "•••" : covered(it);
  };
  return Object.fromEntries(Object.entries(value).map(([name, it]) => [name, cover(name, it)]));
}

export function element(name, properties = {}) {
  return Object.assign(document.createElement(name), properties);
}
