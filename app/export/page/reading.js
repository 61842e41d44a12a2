// Reads the run: its arrays, its frames, and what each cell is at a frame. Knows no page.

const NOISE = 0, CANDIDATE = 1, ACCEPTED = 2, TAKEN_BACK = 3, SETTLED = 4, GIVEN = 5, PADDING = 6, FITTING = 7, MASKED = 8;
const SETTLED_AFTER = 2;
const told = JSON.parse(document.getElementById("data").textContent);
const special = new Set(told.special);
const ends = new Set(told.ends);
const blocks = [];
const frames = []; // {block, step}: step -1 is the noise, step S the commit

// A step as people count it, from 1; the data counts from 0.
const stepNumber = (step) => step + 1;

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function reader(bytes) {
  let place = 0;
  const plane = (count) => bytes.subarray(place, (place += count));
  return {
    plane,
    numbers(count, width) {
      const found = new Uint32Array(count);
      for (let shift = 0; shift < 8 * width; shift += 8) {
        const part = plane(count);
        for (let i = 0; i < count; i += 1) found[i] |= part[i] << shift;
      }
      return found;
    },
  };
}

async function readBlock(raw) {
  const from = reader(await inflate(raw.data));
  const { length, steps, width } = raw;
  const cells = steps * length;
  const block = { ...raw, data: null, pinned: new Set(raw.pinned), held: new Map(raw.held), fits: new Set(raw.fits) };
  block.begins = new Map(raw.rounds.map((round) => [round[1], round])); // by the step that a round begins with
  block.noise = from.numbers(length, 3);
  block.final = raw.committed ? from.numbers(length, 3) : null;
  block.argmax = from.numbers(cells, 3);
  block.candidate = from.numbers(cells, 3).map((token, i) => token ^ block.argmax[i]);
  block.following = from.numbers(cells, 3).map((token, i) => token ^ block.candidate[i]);
  block.accepted = from.plane(cells);
  block.entropy = Float32Array.from(from.numbers(cells, 2), (value) => value / 1000);
  const top = from.numbers(cells * width, 3);
  for (let i = 0; width && i < cells; i += 1) top[i] ^= block.argmax[i];
  block.top = top;
  block.share = from.numbers(cells * width, 2);
  develop(block);
  return block;
}

// The canvas before a step.
const shownBefore = (block, step, at) => (step > 0 ? block.following[(step - 1) * block.length + at] : block.noise[at]);

// Whether a position of a block with masks is written before a step.
function isWritten(block, step, at) {
  return step > 0 ? block.accepted[(step - 1) * block.length + at] : block.noise[at] !== block.filler;
}

// What has become of each position at each step: the same rules as the canvas in the window.
function develop(block) {
  const { length, steps } = block;
  block.fate = new Uint8Array(steps * length);
  block.timesTakenBack = new Uint16Array(steps * length);
  const agreed = new Uint16Array(length);
  for (let step = 0, i = 0; step < steps; step += 1) {
    for (let at = 0; at < length; at += 1, i += 1) {
      const before = i - length, isAnew = block.begins.has(step);
      const goesOn = step > 0 && !isAnew; // a round makes noise of what is not pinned
      const same = goesOn && block.argmax[before] === block.argmax[i];
      agreed[at] = block.accepted[i] ? (same ? agreed[at] : 0) + 1 : 0;
      const replaced = isWritten(block, step, at) && block.following[i] !== shownBefore(block, step, at);
      const takenBack = block.filler === null ? goesOn && block.accepted[before] && !block.accepted[i] : replaced;
      const settled = agreed[at] >= SETTLED_AFTER && block.candidate[i] === block.argmax[i];
      block.fate[i] = takenBack ? TAKEN_BACK : settled ? SETTLED : block.accepted[i] ? ACCEPTED : NOISE;
      block.timesTakenBack[i] = (step > 0 ? block.timesTakenBack[before] : 0) + (takenBack ? 1 : 0);
    }
  }
}

const counted = (block) => (block.committed ? block.textLength : block.length);

function tokenAt(block, step, at, calm) {
  if (step < 0) return block.noise[at];
  if (step >= block.steps) return block.final[at];
  const i = step * block.length + at;
  return calm && !block.accepted[i] ? block.argmax[i] : block.following[i];
}

// Pinned from the start, or from a step on in a fork or by a round.
function isGiven(block, step, at) {
  return block.pinned.has(at) || step >= block.held.get(at);
}

function stateAt(block, step, at, calm) {
  if (step >= block.steps && at >= block.textLength) return PADDING;
  if (isGiven(block, step, at)) return block.fits.has(at) ? FITTING : GIVEN;
  if (step < 0) return block.filler === null ? NOISE : block.noise[at] === block.filler ? MASKED : ACCEPTED;
  if (step >= block.steps) return SETTLED;
  const fate = block.fate[step * block.length + at];
  if (fate !== NOISE) return fate;
  if (block.filler !== null) return tokenAt(block, step, at, calm) === block.filler ? MASKED : CANDIDATE;
  return calm ? CANDIDATE : NOISE;
}

// Whether the pass of a step predicted a position; a step that begins with noise predicts all.
function isPredicted(block, step, at) {
  if (block.filler === null) return true;
  return block.argmax[step * block.length + at] !== shownBefore(block, step, at);
}

// The figures of a step, padding left out.
function figures(block, step) {
  const count = counted(block);
  const found = { entropy: 0, accepted: 0, takenBack: 0, count };
  let predicted = 0;
  const from = Math.max(0, Math.min(step, block.steps - 1)) * block.length;
  if (step < 0 || !block.steps) return found;
  for (let i = from; i < from + count; i += 1) {
    if (isPredicted(block, step, i - from)) {
      found.entropy += block.entropy[i];
      predicted += 1;
    }
    found.accepted += block.accepted[i];
    found.takenBack += block.fate[i] === TAKEN_BACK ? 1 : 0;
  }
  found.entropy /= predicted || 1;
  return found;
}

// [text, kind]: how a token is drawn in a cell.
const glyphOf = (token) => told.glyphs[token] || [told.pieces[token].replaceAll(" ", "\u00b7"), "text"];
const spelled = (token) => told.names[token] || glyphOf(token)[0];

// The text at a frame: finished blocks, then the best guesses of the open one. [token, block, position, draft]
function textAt(frame) {
  const found = [];
  for (let index = told.decision ? frame.block : 0; index <= frame.block; index += 1) { // reads are of one prompt
    const block = blocks[index];
    const whole = block.committed && (index < frame.block || frame.step >= block.steps);
    if (!whole && frame.step < 0) break;
    for (let at = 0; at < (whole ? block.textLength : block.length); at += 1) {
      const step = index < frame.block ? block.steps - 1 : Math.min(frame.step, block.steps - 1);
      const token = whole ? block.final[at] : block.argmax[step * block.length + at];
      if (!whole && ends.has(token)) break;
      if (!special.has(token) && (whole || token !== block.filler)) found.push([token, index, at, !whole]);
    }
  }
  return found;
}

function element(name, attributes = {}, ...content) {
  const svg = ["svg", "path", "circle", "line", "rect", "g", "text", "polyline"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}
const byId = (id) => document.getElementById(id);
