// The view of one stream: steps in (one for each delta, the last for the end), a stream that plays out.
//
// `new View(root)` makes it; `start(case)` empties it, `add(step)` gives it a step, `fail(message)` says why no more come.
// Held: the steps, the place up to which they are drawn, the message so far. Steps come from the parser; nothing here
// reads the format. Drawing only adds at the end; going back draws anew from the beginning.

const LABELS = {
  reasoning: "reasoning", content: "answer", "call-name": "call name", argument: "argument", markup: "markup",
  withheld: "withheld", dropped: "dropped",
};
/** Spans that are drawn at most in one frame, so that a long stream stays smooth. */
const A_FRAME = 400;

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
};

/** Text in which nothing is invisible: control and direction characters as their code points. */
export const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/gu,
  (character) => `⟦U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟧`);

const shortened = (text, most = 160) => {
  const characters = Array.from(text.slice(0, most * 2));
  return visible(characters.length > most ? `${characters.slice(0, most).join("")}…` : text);
};

/**
 * Text that grows in blocks, which the browser passes over while they are out of sight. A block ends with a line, or within
 * one that fills screens.
 */
class Blocks {
  constructor(root, tag = "div") {
    Object.assign(this, { root, tag, left: 0 });
  }

  append(text, element) {
    if (this.left <= 0) {
      this.root.append(this.last = make(this.tag, { class: "block" }));
      this.left = 4000;
    }
    this.last.append(element);
    this.left -= text.length;
    if (this.left < 3000 && text.endsWith("\n")) this.left = 0;
  }
}

export class View {
  /** `changed(view)` is called when what is shown has changed. */
  constructor(root, changed = () => {}) {
    this.changed = changed;
    this.root = root;
    this.speed = 20;
    root.classList.add("view");
    root.replaceChildren(...this.parts());
    this.start({});
    root.addEventListener("keydown", (event) => this.key(event));
  }

  parts() {
    const button = (label, name, action) => make("button", { type: "button", "data-do": name, onclick: action }, label);
    this.play = button("Play", "play", () => this.toggle());
    this.range = make("input", { type: "range", min: 0, value: 0, "aria-label": "Delta", oninput: () => { const place = +this.range.value; this.pause(); this.to(place); } });
    this.rate = make("select", { "aria-label": "Deltas a second", onchange: () => { this.speed = +this.rate.value; } },
      ...[1, 5, 20, 100, 1000, 0].map((rate) => make("option", { value: rate, selected: rate === 20 }, rate ? `${rate} a second` : "at once")));
    this.ticks = make("input", { type: "checkbox", onchange: () => { const { at } = this; this.clear(); this.to(at); } });
    this.place = make("output", { "data-what": "place" });
    this.state = make("dl", { class: "state", "data-what": "state" });
    this.text = make("div", { class: "bytes", "data-what": "bytes", tabindex: 0, role: "group", "aria-label": "The stream, coloured by what became of it" });
    this.heldPart = make("span", { class: "held", "data-part": "held" });
    this.detail = make("div", { class: "detail", "data-what": "detail", "aria-live": "polite" });
    this.events = make("div", { class: "events", "data-what": "events", tabindex: 0, role: "group", "aria-label": "Events" });
    this.notes = make("ul", { class: "notes", "data-what": "diagnostics" });
    this.message = make("div", { class: "message", "data-what": "message" });
    this.frames = make("pre", { class: "frames", "data-what": "frames", tabindex: 0, "aria-label": "Frames" });
    const follow = (event) => { const span = event.target.closest("[data-event]"); if (span) this.show(+span.dataset.event); };
    for (const place of [this.text, this.events, this.notes]) for (const kind of ["mouseover", "focusin", "click"]) place.addEventListener(kind, follow);
    const panel = (title, ...children) => make("section", {}, make("h3", {}, title), ...children);
    return [
      make("div", { class: "controls", role: "toolbar", "aria-label": "Playing" },
        this.play, button("◀ Step", "back", () => { this.pause(); this.to(this.at - 1); }),
        button("Step ▶", "step", () => { this.pause(); this.to(this.at + 1); }),
        button("Start", "first", () => { this.pause(); this.to(0); }), button("End", "last", () => { this.pause(); this.to(this.steps.length); }),
        this.range, this.rate, make("label", {}, this.ticks, " ends of deltas"), this.place),
      make("ul", { class: "legend", "aria-label": "Colours" },
        ...Object.entries({ ...LABELS, held: "held" }).map(([part, label]) => make("li", {}, make("span", { "data-part": part }, label)))),
      this.state,
      make("div", { class: "columns" },
        make("div", {}, panel("Stream", this.text), panel("Chosen span", this.detail), panel("Diagnostics", this.notes)),
        make("div", {}, panel("Message", this.message), panel("Events", this.events), panel("Frames that a client gets", this.frames))),
    ];
  }

  /** Begins a stream: `case` is what it is called and asked for. */
  start(about) {
    cancelAnimationFrame(this.frame);
    Object.assign(this, { about, steps: [], ended: false, error: null, playing: false, due: 0, last: 0 });
    this.range.max = 0;
    this.clear();
    this.tell();
  }

  /** One more step came. */
  add(step) {
    this.steps.push(step);
    this.range.max = this.steps.length;
    if (step.result) this.ended = true;
    if (!this.playing) this.tell();
  }

  fail(message) {
    this.error = message;
    this.tell();
  }

  clear() {
    Object.assign(this, { at: 0, drawn: [], bytes: 0, ids: [], said: { calls: [] }, fresh: new Map() });
    this.heldPart.textContent = "";
    for (const part of [this.text, this.detail, this.events, this.notes, this.frames, this.message]) part.replaceChildren();
    this.blocks = new Blocks(this.text);
    this.blocks.append("", this.heldPart);
    this.list = new Blocks(this.events, "ol");
    this.sent = new Blocks(this.frames);
    this.draw();
  }

  /** Plays, or stops. */
  toggle() {
    if (this.playing) return this.pause();
    if (this.at >= this.steps.length && this.ended) this.to(0);
    this.playing = true;
    this.last = performance.now();
    this.due = 0;
    this.frame = requestAnimationFrame((now) => this.tick(now));
    this.tell();
  }

  pause() {
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.tell();
  }

  tick(now) {
    if (!this.playing) return;
    this.due += this.speed ? (now - this.last) / 1000 * this.speed : Infinity;
    this.last = now;
    const deltas = Math.min(Math.floor(this.due), this.steps.length - this.at, A_FRAME);
    this.due = this.speed ? this.due - deltas : 0;
    if (deltas > 0) this.forward(this.at + deltas);
    if (this.at >= this.steps.length && (this.ended || this.error)) this.pause();
    else this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  /** Shows the stream after this many steps. A long way takes several frames. */
  to(place) {
    const wanted = Math.max(0, Math.min(place, this.steps.length));
    cancelAnimationFrame(this.frame);
    if (wanted < this.at) this.clear();
    const on = () => {
      this.forward(Math.min(wanted, this.at + A_FRAME));
      if (this.at < wanted) this.frame = requestAnimationFrame(on);
    };
    on();
  }

  forward(place) {
    const spans = [], events = [], frames = [];
    for (; this.at < place; this.at += 1) {
      const step = this.steps[this.at];
      this.ids.push(...step.ids ?? []);
      for (const event of step.events) {
        const number = this.drawn.push({ ...event, delta: step.delta }) - 1;
        this.say(event);
        spans.push(...this.spans(event, number));
        events.push(make("li", { "data-event": number }, make("b", { "data-part": event.part }, event.event), ` ${event.bytes.join("–")} `,
          make("span", {}, shortened(event.text ?? event.raw, 80))));
        if (event.event === "diagnostic") {
          this.notes.append(make("li", {}, make("a", { href: "#", "data-event": number, onclick: (click) => { click.preventDefault(); this.find(number); } }, event.text),
            ` at byte ${event.bytes[0]}: ${event.meaning}`));
        }
      }
      if (step.text && this.ticks.checked) spans.push(make("i", { class: "tick", "aria-hidden": true }));
      frames.push(step.frames);
      if (step.result) {
        for (const { code, count, first } of step.report.diagnostics) {
          if (!this.drawn.some((event) => event.text === code)) this.notes.append(make("li", {}, `${code}, ${count} times, the first at byte ${first}`));
        }
      }
    }
    for (const span of spans) this.blocks.append(span.textContent, span);
    this.blocks.last.append(this.heldPart);
    this.heldPart.textContent = this.at ? visible(this.steps[this.at - 1].held) : "";
    for (const event of events) this.list.append(event.textContent, event);
    this.sent.append(frames.join(""), visible(frames.join("")));
    this.draw();
  }

  /** The spans of an event; a tool's name is one of its own within its call's header. */
  spans(event, number) {
    const span = (part, text) => make("span", { "data-part": part, "data-event": number, tabindex: -1 }, visible(text));
    if (event.event === "diagnostic") {
      return [make("button", { type: "button", class: "flag", "data-event": number, title: `${event.text}: ${event.meaning}`, "aria-label": event.text }, "⚑")];
    }
    if (!event.raw) return [];
    if (!event.name) return [span(event.part, event.raw)];
    const bytes = new TextEncoder().encode(event.raw);
    const [from, to] = event.name.map((at) => at - event.bytes[0]);
    const piece = (start, end) => new TextDecoder().decode(bytes.subarray(start, end));
    return [span(event.part, piece(0, from)), span("call-name", piece(from, to)), span(event.part, piece(to, bytes.length))];
  }

  /** Adds what an event gives to the message. */
  say({ event, text, raw, call, complete }) {
    const given = text ?? raw, { said, fresh } = this;
    const part = (name, label) => {
      const words = make("div", { "data-part": name });
      this.message.append(make("section", { "aria-label": label }, make("b", {}, label), words));
      return new Blocks(words);
    };
    const give = (place) => fresh.set(place, (fresh.get(place) ?? "") + given);
    if (event === "reasoning") give(said.reasoning ??= part("reasoning", "reasoning"));
    else if (event === "content") give(said.content ??= part("content", "answer"));
    else if (event === "call-start") {
      const [json, state] = [make("div", { "data-part": "argument" }), make("small", {}, " open")];
      this.message.append(make("section", { "aria-label": "call" }, make("b", { "data-part": "call-name" }, visible(given)), state, json));
      said.calls[call] = { json: new Blocks(json), state };
    } else if (call != null) give(said.calls[call].json);
    if (event === "call-end") said.calls[call].state.textContent = complete ? " complete" : " not complete: do not run it";
  }

  draw() {
    const step = this.steps[this.at - 1];
    for (const [place, text] of this.fresh) place.append(text, visible(text));
    this.fresh.clear();
    const entries = [["open channel", step?.channel ?? "none"], ["held now", step?.held ? `${new TextEncoder().encode(step.held).length} bytes` : "nothing"], ["bytes decided", this.drawn.at(-1)?.bytes[1] ?? 0]];
    if (this.ids.length) entries.push(["tokens", this.ids.length]);
    if (step?.result) entries.push(["finish reason", step.result.finish_reason]);
    this.state.replaceChildren(...entries.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
    this.tell();
  }

  tell() {
    this.play.textContent = this.playing ? "Pause" : "Play";
    this.range.value = this.at;
    this.place.textContent = this.error ?? `${this.at} of ${this.steps.length}${this.ended ? "" : " so far"}`;
    this.place.classList.toggle("error", Boolean(this.error));
    this.changed(this);
  }

  /** Tells all of an event, and marks it. */
  show(number) {
    const event = this.drawn[number];
    if (!event) return;
    this.chosen = number;
    for (const marked of this.root.querySelectorAll(".chosen")) marked.classList.remove("chosen");
    for (const span of this.root.querySelectorAll(`[data-event="${number}"]`)) span.classList.add("chosen");
    const tokens = event.tokens && `${event.tokens.join("–")}: ${this.ids.slice(...event.tokens).join(" ") || "their ids come later"}`;
    const rows = { event: event.event, "counted as": LABELS[event.part] ?? event.part, bytes: event.bytes.join("–"), tokens, delta: event.delta + 1, call: event.call, complete: event.complete, input: event.raw && shortened(event.raw), gives: event.text && shortened(event.text), meaning: event.meaning };
    this.detail.replaceChildren(make("dl", {}, ...Object.entries(rows).filter(([, value]) => value != null && value !== "")
      .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value))))));
  }

  find(number) {
    this.show(number);
    this.text.querySelector(`[data-event="${number}"]`)?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    if (event.target.matches("input, select, textarea, button") && event.key !== "Escape") return;
    const next = (by) => { const wanted = Math.max(0, Math.min((this.chosen ?? -1) + by, this.drawn.length - 1)); if (this.drawn.length) this.find(wanted); };
    const action = { " ": () => this.toggle(), ArrowRight: () => { this.pause(); this.to(this.at + 1); }, ArrowLeft: () => { this.pause(); this.to(this.at - 1); }, Home: () => this.to(0), End: () => this.to(this.steps.length), ArrowDown: () => next(1), ArrowUp: () => next(-1) }[event.key];
    if (action) { event.preventDefault(); action(); }
  }
}
