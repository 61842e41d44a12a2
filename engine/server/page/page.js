// One prompt, one answer, and the canvas while it develops. Talks to the server that it came from, and to nobody else.
"use strict";

const byId = (name) => document.getElementById(name);
const view = Object.fromEntries(
  ["model", "access", "key", "ask", "prompt", "noise", "send", "stop", "problem", "development", "place", "count",
    "canvas", "legend", "blocks", "reply", "thinking", "thought", "answer", "end"].map((name) => [name, byId(name)]),
);
const CHARACTERS = 1000; // tokens of a vocabulary whose pieces are about one character long
const PACE = 60; // milliseconds that a step is shown at least, so that it is seen
const BEHIND = 50; // frames that wait; beyond, none is held up
const isStill = matchMedia("(prefers-reduced-motion: reduce)");
const GONE = "The server cannot be reached. Check in Safelight that it is on, then try again.";

let model = null;
let shown = ""; // the name of the one whose canvas it is
let run = null; // the current one

// --- the key -------------------------------------------------------------------------------------------------------

function takeKeyFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    sessionStorage.setItem("key", given);
    history.replaceState(null, "", location.pathname); // it is not to stand in the address, or in bookmarks
  }
}

function headers() {
  return { Authorization: `Bearer ${sessionStorage.getItem("key") || ""}` };
}

function askForKey() {
  sessionStorage.removeItem("key");
  view.access.hidden = false;
  view.ask.hidden = true;
  view.key.focus();
}

// --- what is said --------------------------------------------------------------------------------------------------

function complain(sentence) {
  view.problem.textContent = sentence;
  view.problem.hidden = !sentence;
}

class Refusal extends Error {}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Refusal(GONE);
  }
  if (response.ok) return response;
  if (response.status === 401) {
    askForKey();
    throw new Refusal("That is not this server’s key. Copy it from Safelight again.");
  }
  const said = await response.json().catch(() => null);
  throw new Refusal(said?.error?.message || `The server answered with ${response.status}. Try again.`);
}

// --- the model -----------------------------------------------------------------------------------------------------

async function connect() {
  complain("");
  if (!sessionStorage.getItem("key")) return askForKey();
  view.access.hidden = true;
  view.ask.hidden = false;
  try {
    model = await described("");
  } catch (error) {
    return complain(error.message);
  }
  show(model);
  view.prompt.placeholder = model.traits.placeholder;
  view.prompt.focus();
}

async function described(name) {
  const query = name && `?model=${encodeURIComponent(name)}`;
  return (await asked(`/safelight/v1/model${query}`, { headers: headers() })).json();
}

function show(writer) { // the model, or the part of it that answers
  shown = writer.name;
  view.model.textContent = writer.title;
  view.canvas.classList.toggle("words", writer.vocab_size > CHARACTERS);
  const columns = writer.traits.canvas_columns;
  view.canvas.style.setProperty("--columns", columns || "");
  view.canvas.style.setProperty("--widest", columns ? "2.4em" : "");
}

// --- the canvas ----------------------------------------------------------------------------------------------------

function written(piece) {
  if (!piece) return "·"; // a control token has no text
  if (piece === "\n") return "↵";
  return piece.trim() || " ";
}

function paint() {
  const { frame, pieces } = run;
  run.isPainting = false;
  if (!frame) return;
  const isCommitted = frame.committed;
  const accepted = new Set(frame.accepted);
  const settled = new Set(frame.settled);
  const takenBack = new Set(frame.remelted);
  while (view.canvas.children.length > frame.ids.length) view.canvas.lastChild.remove();
  while (view.canvas.children.length < frame.ids.length) view.canvas.append(document.createElement("span"));
  frame.ids.forEach((token, position) => {
    const cell = view.canvas.children[position];
    let state = view.noise.checked || frame.step === 0 ? "noise" : "candidate";
    if (accepted.has(position)) state = "accepted";
    if (settled.has(position)) state = "settled";
    if (takenBack.has(position)) state = "taken-back";
    const isThere = view.noise.checked || accepted.has(position) || isCommitted;
    const shown = isThere ? token : frame.draft[position];
    const isMasked = frame.filler !== null && !accepted.has(position) && shown === frame.filler && !isCommitted;
    const piece = pieces[shown];
    const text = isMasked ? "_" : isCommitted && !settled.has(position) ? "·" : written(piece);
    if (isMasked) state = "masked";
    else if (frame.filler !== null && state === "noise") state = "candidate";
    if (text === "·" && !piece && state !== "taken-back") state = "padding";
    if (isCommitted && !settled.has(position)) state = "padding";
    if (cell.textContent !== text) cell.textContent = text;
    if (cell.dataset.state !== state) {
      const isFresh = state === "accepted" || state === "taken-back";
      cell.dataset.state = state;
      cell.className = isFresh ? `${state} fresh` : state;
    }
  });
  const isNoise = frame.filler === null;
  const begun = isNoise ? `step ${frame.step} of at most ${frame.total}` : `step ${frame.step}`;
  const steps = frame.step > 0 ? begun : isNoise ? "noise" : "nothing written yet";
  view.place.textContent = isCommitted
    ? `Block ${frame.block} · finished after ${counted(frame.step, "step")}`
    : `Block ${frame.block} · ${steps}`;
  const count = isNoise ? `${accepted.size} of ${frame.ids.length} accepted` : `${accepted.size} written`;
  view.count.textContent = isCommitted ? "" : count;
  view.legend.classList.toggle("written", !isNoise);
  view.canvas.setAttribute("aria-label", `Canvas. ${view.place.textContent}. ${view.count.textContent}`.trim());
}

function repaint() {
  if (!run || run.isPainting) return;
  run.isPainting = true;
  requestAnimationFrame(paint);
}

function counted(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

function addBlock(frame) {
  const item = document.createElement("li");
  item.textContent = `Block ${frame.block} · ${counted(frame.step, "step")}`;
  view.blocks.append(item);
}

// --- one answer ----------------------------------------------------------------------------------------------------

function take(chunk) {
  if (chunk.error) throw new Refusal(chunk.error.message);
  if (chunk.type === "diffusion_frame") {
    Object.assign(run.pieces, chunk.pieces);
    run.frame = chunk;
    run.steps += chunk.step > 0 && !chunk.committed ? 1 : 0;
    view.development.hidden = false;
    if (chunk.committed) addBlock(chunk);
    return repaint();
  }
  const choice = chunk.choices?.[0];
  const thought = choice?.delta?.reasoning_content;
  if (thought) {
    view.thinking.hidden = false;
    view.thought.textContent += thought;
  }
  if (choice?.delta?.content) view.answer.textContent += choice.delta.content;
  if (thought || choice?.delta?.content) {
    view.reply.hidden = false;
  }
  if (choice?.finish_reason) run.reason = choice.finish_reason;
  if (chunk.usage) run.tokens = chunk.usage.completion_tokens;
}

async function read(response, chunks) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refusal("The connection was lost before the answer ended. Try again.");
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part === "data: [DONE]") return;
      if (part.startsWith("data: ")) chunks.push(JSON.parse(part.slice(6)));
    }
  }
}

async function follow(response) {
  const chunks = [];
  let isOver = false;
  const reading = read(response, chunks).finally(() => { isOver = true; });
  reading.catch(() => {}); // said below, once what came before it is shown
  while (!run.stopping.signal.aborted && (chunks.length || !isOver)) {
    const chunk = chunks.shift();
    if (chunk?.model && chunk.model !== shown) show(await described(chunk.model));
    if (chunk) take(chunk);
    const isHeld = chunk?.type && !isStill.matches && chunks.length < BEHIND;
    if (!chunk || isHeld) await new Promise((go) => { setTimeout(go, isHeld ? PACE : 10); });
  }
  run.stopping.signal.throwIfAborted();
  await reading;
}

function begin() {
  run = { pieces: {}, frame: null, isPainting: false, steps: 0, tokens: null, reason: null,
    stopping: new AbortController() };
  complain("");
  for (const part of [view.answer, view.thought, view.end, view.blocks, view.canvas]) part.replaceChildren();
  for (const part of [view.development, view.reply, view.thinking]) part.hidden = true;
  view.place.textContent = view.count.textContent = "";
  view.send.hidden = true;
  view.stop.hidden = false;
  view.end.textContent = "";
}

function end(sentence) {
  view.send.hidden = false;
  view.stop.hidden = true;
  view.end.textContent = sentence;
  view.reply.hidden = !sentence && !view.answer.textContent;
  document.documentElement.dataset.runs = Number(document.documentElement.dataset.runs || 0) + 1;
}

async function send() {
  const prompt = view.prompt.value.trim();
  if (!prompt || !view.stop.hidden) return;
  begin();
  const body = {
    messages: [{ role: "user", content: prompt }],
    stream: true,
    stream_options: { include_usage: true },
  };
  try {
    if (!model) await connect();
    if (!model) return end("");
    body.model = model.name;
    if (model.capabilities.steps) body.diffusion_frames = true;
    await follow(await asked("/v1/chat/completions", {
      method: "POST",
      headers: { ...headers(), "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: run.stopping.signal,
    }));
    const tokens = run.tokens === null ? "" : `${counted(run.tokens, "token")} in `;
    const cut = run.reason === "length" ? " The answer was cut: it reached the longest length." : "";
    end(`${tokens}${counted(run.steps, "step")}.${cut}`);
  } catch (error) {
    if (error.name === "AbortError") return end(`Stopped after ${counted(run.steps, "step")}.`);
    complain(error instanceof Refusal ? error.message : GONE);
    end("");
  }
}

// --- controls ------------------------------------------------------------------------------------------------------

view.access.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", view.key.value.trim());
  view.key.value = "";
  connect();
});
view.ask.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
view.prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !view.stop.hidden) run.stopping.abort();
});
view.stop.addEventListener("click", () => {
  run.stopping.abort();
  view.prompt.focus();
});
view.noise.addEventListener("change", repaint);

takeKeyFromAddress();
connect().finally(() => { document.documentElement.dataset.ready = "true"; });
