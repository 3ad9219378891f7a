// The page: streams from the server, from the clipboard or from the engine, given to the view; and the server's own tab.
//
// In: what the user chooses, or the address's fragment. Out: one view, and the fragment that leads back to it. The server's
// parser reads every stream; the page sends a case and gets a line of JSON for each step.

import { View } from "./view.js";

const CHUNKINGS = { "as-given": "as given", whole: "not at all", chars: "after every character", "random:1": "at random, 1", "random:2": "at random, 2", "random:3": "at random, 3" };
const $ = (id) => document.getElementById(id);
let view, running, current;

/** Lines of JSON as they come. */
async function* lines(response) {
  let rest = "";
  for await (const part of decoded(response.body)) {
    const all = (rest + part).split("\n");
    rest = all.pop();
    for (const line of all) if (line) yield JSON.parse(line);
  }
  if (rest) yield JSON.parse(rest);
}

async function* decoded(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let read; !(read = await reader.read()).done;) yield read.value;
}

async function ask(path, body, signal) {
  const key = $("key").value;
  const headers = { ...body && { "content-type": "application/json" }, ...key && { authorization: `Bearer ${key}` } };
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  if (response.ok) return response;
  if (response.status === 401) $("needs-key").hidden = false;
  const said = await response.json().catch(() => null);
  throw new Error(said?.error?.message ?? `the server says ${response.status}`);
}

/** Plays a case from the beginning; `place` is where the view shall stand. */
async function open(opened, { chunking = "as-given", place = 0, play = true } = {}) {
  running?.abort();
  const { signal } = running = new AbortController();
  current = { ...opened, chunking, results: {} };
  $("name").textContent = opened.case.id ?? "";
  $("chunking").value = chunking;
  $("same").textContent = "";
  view.start(opened.case);
  try {
    const response = opened.live ? await ask("page/prompt", opened.live, signal) : await ask(`page/play?chunking=${chunking}`, opened.case, signal);
    const chunks = [], ids = [];
    if (play) view.toggle();
    for await (const line of lines(response)) {
      if (line.error) throw new Error(line.error);
      if (line.context) { current.case.context = line.context; continue; }
      view.add(line);
      if (opened.live && !line.result) { chunks.push(line.text); ids.push(line.ids ?? []); }
      if (line.result) current.results[chunking] = line.result;
    }
    if (!view.ended) throw new Error("the stream broke off");
    if (opened.live) current = { ...current, live: null, case: { ...current.case, chunks, ...ids.some((some) => some.length) && { ids } } };
    if (place) { view.pause(); view.to(place); }
    await compare(signal);
  } catch (error) {
    if (error.name !== "AbortError") view.fail(error.message);
  }
}

/** Whether every way to cut the stream gives the same result. */
async function compare(signal) {
  const { results } = current;
  for (const chunking of Object.keys(CHUNKINGS)) {
    if (results[chunking]) continue;
    for await (const line of lines(await ask(`page/play?result&chunking=${chunking}`, current.case, signal))) if (line.result) results[chunking] = line.result;
  }
  const different = new Set(Object.values(results).map((result) => JSON.stringify(result))).size;
  $("same").textContent = different === 1 ? `the same result under ${Object.keys(results).length} ways to cut` : `${different} different results: a fault`;
  $("same").classList.toggle("differs", different !== 1);
}

/** What was pasted, as a case: a case already, a server's answer (frames or lines of JSON), or raw text. */
function pasted(text) {
  const context = { tools: $("tools").value.split(",").map((name) => name.trim()).filter(Boolean), initial_channel: $("opened").value, engine_finish_reason: $("reason").value };
  const parsed = (line) => { try { return JSON.parse(line); } catch { return null; } };
  const whole = parsed(text.trim());
  if (whole?.chunks || whole?.byte_chunks_hex || whole?.interleaved_choices) return { id: "pasted", ...whole };
  const frames = text.split(/\r?\n/).map((line) => line.replace(/^data:\s*/, "").trim()).filter((line) => line && line !== "[DONE]" && !line.startsWith(":")).map(parsed);
  const choices = frames.length && frames.every(Boolean) ? frames.flatMap((frame) => frame.choices ?? []) : [];
  const said = choices.map((choice) => ({ text: choice.text ?? choice.delta?.content ?? choice.message?.content ?? "", ids: choice.token_ids ?? [] }));
  if (!said.length) return { id: "pasted", context, chunks: [text] };
  const known = said.every(({ text: some, ids }) => ids.length || !some);
  const reason = choices.map((choice) => choice.finish_reason).filter(Boolean).at(-1);
  return { id: "captured", context: { ...context, engine_finish_reason: reason ?? context.engine_finish_reason }, chunks: said.map((some) => some.text), ...known && said.some(({ ids }) => ids.length) && { ids: said.map(({ ids }) => ids) } };
}

const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

/** The fragment that leads back here. */
let remembering;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(async () => {
    if (!current || current.live || view.playing) return;
    const state = new URLSearchParams({ cut: current.chunking, at: view.at });
    if (current.recorded) state.set("id", current.recorded);
    else {
      const packed = base64(await through(new TextEncoder().encode(JSON.stringify(current.case)), new CompressionStream("deflate-raw")));
      if (packed.length > 60_000) return;
      state.set("case", packed);
    }
    history.replaceState(null, "", `#${state}`);
  }, 200);
}

async function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  const options = { chunking: CHUNKINGS[state.get("cut")] ? state.get("cut") : "as-given", place: Math.max(0, Math.trunc(+state.get("at") || 0)), play: false };
  try {
    if (state.get("id")) await recorded(state.get("id"), options);
    else if (state.get("case")) {
      const packed = Uint8Array.from(atob(state.get("case").replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
      await open({ case: JSON.parse(new TextDecoder().decode(await through(packed, new DecompressionStream("deflate-raw")))) }, options);
    }
  } catch (error) {
    view.fail(`this link leads to no stream: ${error.message}`);
  }
}

async function recorded(id, options) {
  const known = await (await ask(`page/streams/${encodeURIComponent(id)}`)).json();
  $("recorded").value = id;
  await open({ case: known, recorded: id }, options);
}

async function choose(what) {
  if (what === "recorded") return recorded($("recorded").value);
  if (what === "pasted") return open({ case: pasted($("pasted").value) });
  const messages = [{ role: "user", content: $("prompt").value }];
  const tools = $("tools").value.split(",").map((name) => name.trim()).filter(Boolean).map((name) => ({ type: "function", function: { name } }));
  const { data: [{ id: model }] } = await (await ask("v1/models")).json();
  return open({ case: { id: "live" }, live: { model, messages, stream: true, ...tools.length && { tools } } });
}

async function copy() {
  if (!current) return;
  const { interleaved_choices: several, expected_choices: _, ...rest } = current.case;
  const result = current.results[current.chunking] ?? Object.values(current.results)[0];
  const text = JSON.stringify({ ...several ? current.case : rest, ...result && !several && { expected: current.case.expected ?? result } });
  try {
    await navigator.clipboard.writeText(text);
    $("copied").textContent = "copied";
  } catch {
    $("pasted").value = text;
    $("pasted").closest("details").open = true;
    $("pasted").select();
    $("copied").textContent = "the clipboard is closed: the case stands in the field for pasted text";
  }
}

/** The server's numbers, as Prometheus writes them. */
const samples = (text) => text.split("\n").map((line) => /^([a-z_:]+)(?:\{(.*)\})? (\S+)$/.exec(line)).filter(Boolean)
  .map(([, name, labels = "", value]) => ({ name, labels: Object.fromEntries(Array.from(labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g), ([, key, of]) => [key, of])), value: +value }));

let before;
async function poll() {
  if (!$("server").hidden) {
    try {
      const all = samples(await (await ask("metrics")).text());
      const sum = (name) => all.filter((sample) => sample.name === name).reduce((total, { value }) => total + value, 0);
      const now = { time: performance.now(), tokens: sum("kimi_xtml_completion_tokens_total") };
      const rate = before && now.time > before.time ? (now.tokens - before.tokens) / (now.time - before.time) * 1000 : 0;
      const first = sum("kimi_xtml_time_to_first_token_seconds_sum") / sum("kimi_xtml_time_to_first_token_seconds_count");
      before = now;
      rows($("now"), [["requests", sum("kimi_xtml_requests_total")], ["running", sum("kimi_xtml_requests_running")], ["tokens a second", rate.toFixed(1)], ["tokens", now.tokens],
        ["mean time to first token", Number.isFinite(first) ? `${(first * 1000).toFixed(1)} ms` : "–"]]);
      rows($("codes"), all.filter(({ name }) => name === "kimi_xtml_diagnostics_total").map(({ labels, value }) => [labels.code, value]));
      $("alive").textContent = "the server answers";
      $("alive").classList.remove("gone");
    } catch (error) {
      $("alive").textContent = `the server does not answer: ${error.message}`;
      $("alive").classList.add("gone");
    }
  }
  setTimeout(poll, 1000);
}

function rows(body, all) {
  body.replaceChildren(...all.map(([name, value]) => {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    head.scope = "row";
    head.textContent = name;
    cell.textContent = value;
    row.append(head, cell);
    return row;
  }));
}

function tabs() {
  const all = [...document.querySelectorAll("[role=tab]")];
  const select = (tab) => {
    for (const other of all) {
      other.setAttribute("aria-selected", other === tab);
      other.tabIndex = other === tab ? 0 : -1;
      $(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
  };
  for (const [number, tab] of all.entries()) {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", ({ key }) => {
      const to = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: -1 }[key];
      if (to === undefined) return;
      const other = all.at(to % all.length);
      select(other);
      other.focus();
    });
  }
}

/** Which streams the server has. */
async function list() {
  try {
    const all = await (await ask("page/streams")).json();
    $("recorded").replaceChildren(...all.map(({ id, kind }) => new Option(`${id} ${kind}`, id)));
    $("needs-key").hidden = true;
    return true;
  } catch (error) {
    view.fail(error.message);
    return false;
  }
}

async function begin() {
  view = new View($("view"), remember);
  tabs();
  for (const [value, text] of Object.entries(CHUNKINGS)) $("chunking").append(new Option(text, value));
  $("chunking").addEventListener("change", () => current && !current.live && open({ case: current.case, recorded: current.recorded }, { chunking: $("chunking").value, place: Infinity, play: false }));
  $("source").addEventListener("submit", (event) => {
    event.preventDefault();
    choose(event.submitter?.value ?? "recorded").catch((error) => view.fail(error.message));
  });
  $("copy").addEventListener("click", copy);
  addEventListener("hashchange", recall);
  poll();
  $("needs-key").addEventListener("submit", (event) => {
    event.preventDefault();
    list();
  });
  if (await list()) await recall();
}

begin();
