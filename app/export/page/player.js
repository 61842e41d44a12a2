// Which frame is shown, playing, keys, and all views together.

const FRAME_MS = 200;
const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const PLAY = "M4 2.5 13 8l-9 5.5z", PAUSE = "M4 3h2.5v10H4zM9.5 3H12v10H9.5z";
const now = { place: 0, chosen: -1, speed: 1, direction: 0, timer: 0, view: "calm", layer: "state" };
let limit = 0;

const isDark = () => {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : !matchMedia("(prefers-color-scheme: light)").matches;
};

function paint() {
  const frame = frames[now.place];
  grid.paint(frame, now.view, now.layer, limit, told.ramps[isDark() ? "dark" : "light"]);
  if (grid.isBoard !== now.legend) paintLegend((now.legend = grid.isBoard));
  byId("asked").hidden = !told.prompt || (told.isPuzzle && grid.isBoard); // whose givens the board shows
  timeline.show(now.place);
  answers.show(frame);
  cellHistory.show(frame, now.chosen, go);
  paintText(frame);
  const status = byId("status");
  status.setAttribute("aria-live", now.direction ? "off" : "polite");
  status.textContent = `${now.place + 1}/${frames.length} · ${frameWords(frame)}`;
  byId("scale").hidden = now.layer !== "entropy";
}

function paintText(frame) {
  const found = textAt(frame);
  const joined = found.map(([token]) => told.pieces[token]).join("");
  const last = now.place === frames.length - 1;
  const done = last && blocks[frame.block].committed;
  const box = byId("text");
  if (last && joined !== told.text) box.textContent = told.text; // thinking, or tokens that share a character
  else {
    box.replaceChildren(...found.map(([token, block, at, draft]) => {
      const made = element("span", { "data-block": block, "data-at": at }, told.pieces[token]);
      if (draft) made.className = "draft";
      if (block === frame.block && at === now.chosen) made.classList.add("chosen");
      return made;
    }));
  }
  const ending = { cancelled: "stopped before its end", length: "ended by the length limit" }[told.ending] || "";
  const draft = told.decision ? "the canvas of this read" : "a draft, the best guesses so far";
  byId("unfinished").textContent = done && !told.decision ? ending : draft;
}

function go(place) {
  const to = Math.max(0, Math.min(place, frames.length - 1));
  const before = frames[now.place];
  now.place = to;
  if (frames[to].block !== before.block && now.chosen >= blocks[frames[to].block].length) choose(-1);
  paint();
}

function choose(at) {
  now.chosen = at;
  grid.choose(at);
  paint();
}

function play(direction) {
  clearInterval(now.timer);
  now.direction = direction;
  byId("play").setAttribute("aria-label", direction ? "Pause" : "Play");
  byId("play-sign").setAttribute("d", direction ? PAUSE : PLAY);
  if (direction > 0 && now.place === frames.length - 1) go(0);
  if (direction < 0 && now.place === 0) go(frames.length - 1);
  if (direction) now.timer = setInterval(tick, FRAME_MS / now.speed);
  else paint();
}

function tick() {
  const to = now.place + now.direction;
  if (to >= 0 && to < frames.length) go(to);
  else if (byId("loop").checked) go(to < 0 ? frames.length - 1 : 0);
  else play(0);
}

function faster(direction) {
  if (now.direction === direction) setSpeed(SPEEDS[Math.min(SPEEDS.indexOf(now.speed) + 1, SPEEDS.length - 1)]);
  play(direction);
}

function setSpeed(speed) {
  now.speed = speed;
  byId("speed").value = `${speed}`;
  if (now.direction) play(now.direction);
}

function step(by) {
  play(0);
  go(now.place + by);
}

// The nearest frame that shows another token or state at the chosen position.
function change(direction) {
  const shown = (place) => {
    const frame = frames[place];
    const block = blocks[frame.block];
    if (now.chosen >= block.length) return "";
    return [frame.block, tokenAt(block, frame.step, now.chosen, false), stateAt(block, frame.step, now.chosen, false)].join();
  };
  if (now.chosen < 0) return;
  for (let to = now.place + direction; to >= 0 && to < frames.length; to += direction) {
    if (shown(to) !== shown(now.place)) { step(to - now.place); return; }
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const here = event.target;
  const isCell = here.classList && here.classList.contains("cell");
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (here.matches("select") || (here.matches("summary, button") && key === " ")) return;
  if (here.matches("input[type=checkbox]") && key === " ") return;
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const deeds = {
    " ": () => play(now.direction ? 0 : 1), k: () => play(0), j: () => faster(-1), l: () => faster(1),
    ",": () => step(-1), ".": () => step(1), Home: () => step(-frames.length), End: () => step(frames.length),
    ArrowLeft: () => (event.shiftKey ? change(-1) : step(-1)), ArrowRight: () => (event.shiftKey ? change(1) : step(1)),
    Escape: () => choose(-1),
  };
  if (isCell && moves[key] && !event.shiftKey) {
    const at = grid.moved(Number(here.dataset.at), ...moves[key]);
    choose(at);
    grid.focus(at);
  } else if (isCell && key === "Enter") choose(Number(here.dataset.at));
  else if (here.id === "history" && (key === "Home" || key === "End")) return;
  else if (deeds[key]) deeds[key]();
  else return;
  event.preventDefault();
}

function wire() {
  document.addEventListener("keydown", onKey);
  byId("first").addEventListener("click", () => step(-frames.length));
  byId("back").addEventListener("click", () => step(-1));
  byId("play").addEventListener("click", () => play(now.direction ? 0 : 1));
  byId("forth").addEventListener("click", () => step(1));
  byId("last").addEventListener("click", () => step(frames.length));
  byId("scrubber").addEventListener("input", (event) => {
    const place = Number(event.target.value); // before pausing paints, and puts it back
    play(0);
    go(place);
  });
  byId("speed").addEventListener("change", (event) => setSpeed(Number(event.target.value)));
  byId("view").addEventListener("change", (event) => { now.view = event.target.value; paint(); });
  byId("layer").addEventListener("change", (event) => { now.layer = event.target.value; paint(); });
  byId("grid").addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) { choose(Number(cell.dataset.at)); cell.focus(); }
  });
  byId("grid").addEventListener("mouseleave", () => answers.light(-1));
  byId("grid").addEventListener("mouseover", (event) => {
    const cell = event.target.closest(".cell");
    answers.light(cell ? Number(cell.dataset.at) : -1);
    for (const span of byId("text").children) {
      span.classList.toggle("lit", Boolean(cell) && span.dataset.at === cell.dataset.at
        && Number(span.dataset.block) === frames[now.place].block);
    }
  });
  byId("text").addEventListener("mouseover", (event) => {
    const { block, at } = event.target.dataset;
    grid.light(Number(block) === frames[now.place].block ? Number(at) : -1);
  });
  byId("text").addEventListener("mouseleave", () => grid.light(-1));
  byId("text").addEventListener("click", (event) => {
    if (Number(event.target.dataset.block) === frames[now.place].block) choose(Number(event.target.dataset.at));
  });
  byId("theme").addEventListener("click", () => dress(isDark() ? "light" : "dark"));
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => dress(""));
  new ResizeObserver(() => paint()).observe(byId("left"));
}

function dress(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  byId("theme").textContent = isDark() ? "Light colours" : "Dark colours";
  const painter = byId("ramp").getContext("2d");
  told.ramps[isDark() ? "dark" : "light"].forEach(([shade], place) => {
    painter.fillStyle = shade;
    painter.fillRect(place, 0, 1, 1);
  });
  paint();
}

// #frame=12&cell=5&view=raw&layer=entropy&theme=light opens the page as it is to be seen.
function asLinked() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const theme = wanted.get("theme");
  if (["dark", "light"].includes(theme)) document.documentElement.dataset.theme = theme;
  const views = told.blocks.some((block) => block.board) ? ["board", "calm", "raw"] : ["calm", "raw"];
  byId("view").querySelector("[value=board]").hidden = views.length < 3;
  const first = told.showsBoard ? views[0] : "calm";
  now.view = views.includes(wanted.get("view")) ? wanted.get("view") : first;
  now.layer = wanted.get("layer") === "entropy" ? "entropy" : "state";
  byId("view").value = now.view;
  byId("layer").value = now.layer;
  const place = Number.parseInt(wanted.get("frame"), 10);
  now.place = Number.isNaN(place) ? frames.length - 1 : Math.max(0, Math.min(place, frames.length - 1));
  const cell = Number.parseInt(wanted.get("cell"), 10);
  if (cell >= 0 && cell < blocks[frames[now.place].block].length) now.chosen = grid.chosen = cell;
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old; open the page in a newer one");
  for (const raw of told.blocks) blocks.push(await readBlock(raw));
  blocks.forEach((block, index) => {
    const over = block.committed && !told.decision ? 1 : 0; // the end of a read shows nothing new
    for (let at = -1; at < block.steps + over; at += 1) frames.push({ block: index, step: at });
    for (const value of block.entropy) limit = Math.max(limit, value);
  });
  byId("model").textContent = told.model;
  const steps = blocks.reduce((sum, block) => sum + block.steps, 0);
  const much = told.decision ? [count(blocks.length, "read")] : [count(blocks.length, "block"), count(steps, "step")];
  byId("facts").textContent = [told.kind, told.seed && `seed ${told.seed}`, ...much, told.created].filter(Boolean).join(" · ");
  byId("task").hidden = !told.task;
  byId("format").textContent = told.task || "";
  byId("prompt").textContent = told.prompt || "";
  byId("pictures").replaceChildren(...(told.pictures || []).map((src, place) =>
    element("img", { src, alt: `Picture ${place + 1} of the prompt` })));
  if (told.notice) {
    byId("notice").hidden = false;
    byId("notice").textContent = told.notice;
  }
  byId("settings").replaceChildren(...told.settings.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  byId("limit").textContent = `${limit.toFixed(2)} nats, the most in this run`;
  byId("replay").hidden = false;
  answers.build();
  asLinked();
  timeline.build(go);
  dress("");
  wire();
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  byId("failure").hidden = false;
  byId("failure").textContent = `The run cannot be shown: ${error.message}.`;
});
