// A Sudoku's cells at a frame: the same rules as the board in the window. Knows no page but the cells it is handed.

const SURE = new Set([ACCEPTED, SETTLED, GIVEN]);
const DOMINATES = 500, LEAST_MARK = 20; // thousandths
const UNITS = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((n) => {
  const nine = [...Array(9).keys()];
  return [nine.map((i) => 9 * n + i), nine.map((i) => 9 * i + n),
    nine.map((i) => 27 * Math.floor(n / 3) + 3 * (n % 3) + 9 * Math.floor(i / 3) + (i % 3))];
});
const digitOf = (token) => {
  const bare = told.pieces[token].trim();
  return /^[1-9]$/.test(bare) ? bare : "";
};

const signOf = (token) => (glyphOf(token)[1] === "end" ? "\u2022" : glyphOf(token)[0]);

// 81 of {at, state, digit, text, sign, accepted, given, marks, violated, clashes, wrong}
function boardAt(block, step) {
  const { puzzle, positions, wrong } = block.board;
  const committed = step >= block.steps;
  const cells = positions.map((at, cell) => {
    const state = stateAt(block, step, at, false);
    const token = tokenAt(block, step, at, false);
    const sure = committed || SURE.has(state);
    const marks = committed || step < 0 ? [] : marksAt(block, step, at);
    let digit = sure ? digitOf(token) : marks.length && marks[0].share >= DOMINATES ? marks[0].digit : "";
    if (!sure && !block.width && step >= 0) digit = digitOf(block.argmax[step * block.length + at]);
    const given = puzzle[cell] === "0" ? "" : puzzle[cell];
    const violated = given !== "" && (committed ? digitOf(token) !== given : digit !== "" && digit !== given);
    const [text, sign] = state === PADDING || state === MASKED ? ["", ""] : [spelled(token), signOf(token)];
    return { at, state: (state === NOISE || state === MASKED) && digit ? CANDIDATE : state, digit, text, sign, accepted: sure, given,
      marks, violated, clashes: new Set(), wrong: committed && wrong.includes(cell) };
  });
  for (const unit of UNITS) {
    for (const one of unit) {
      for (const other of unit) {
        const shown = cells[one].digit || cells[one].given;
        if (one !== other && shown && shown === (cells[other].digit || cells[other].given)) cells[one].clashes.add(other);
      }
    }
  }
  return cells;
}

function marksAt(block, step, at) {
  const marks = [];
  for (let rank = 0; rank < block.width; rank += 1) {
    const i = rank * block.steps * block.length + step * block.length + at;
    const digit = digitOf(block.top[i]);
    if (digit && block.share[i] >= LEAST_MARK) marks.push({ digit, share: block.share[i] });
  }
  return marks;
}

// What stands in a square: a digit with others beside it, pencil marks in their places, or noise.
function fillSquare(box, cell, developing) {
  const part = (name, text, x, y, size) => {
    const made = element("span", { class: name, "aria-hidden": "true" }, text);
    if (x !== undefined) {
      made.style.left = `${100 * x}%`;
      made.style.top = `${100 * y}%`;
    }
    if (size) made.style.fontSize = `${size.toFixed(2)}em`;
    return made;
  };
  const size = (mark) => 0.14 + 0.25 * Math.sqrt(mark.share / 1000);
  const parts = [];
  if (cell.violated) parts.push(part("tag", cell.given), part("digit", cell.digit || cell.sign, 0.62, 0.58));
  else if (cell.given || cell.digit) parts.push(part("digit", cell.given || cell.digit, 0.5, 0.5));
  else if (cell.marks.length) {
    for (const mark of cell.marks) {
      const n = Number(mark.digit) - 1;
      parts.push(part("mark", mark.digit, 0.2 + 0.3 * (n % 3), 0.16 + 0.235 * Math.floor(n / 3), size(mark)));
    }
  } else parts.push(part("lone", cell.sign, 0.5, 0.5));
  if (!cell.given && cell.digit && !SURE.has(cell.state)) {
    const others = cell.marks.filter((mark) => mark.digit !== cell.digit).slice(0, 4);
    others.sort((one, other) => one.digit - other.digit);
    others.forEach((mark, place) => parts.push(part("mark", mark.digit, 0.14 + 0.2 * place, 0.13, size(mark))));
  }
  const alone = !(cell.given || cell.digit || cell.marks.length);
  if (developing && !alone && !cell.violated && !SURE.has(cell.state)) parts.push(part("beside", cell.sign));
  box.replaceChildren(...parts);
  const marks = { given: cell.given, violated: cell.violated, clash: cell.clashes.size, wrong: cell.wrong && !cell.violated };
  box.className = ["cell square", `s${cell.state}`, ...Object.keys(marks).filter((name) => marks[name])].join(" ");
}

// A line between two cells that show one digit.
function clashLines(cells) {
  const found = [];
  cells.forEach((cell, one) => [...cell.clashes].filter((other) => one < other).forEach((other) => {
    const [y, x, dy, dx] = [Math.floor(one / 9), one % 9, Math.floor(other / 9), other % 9];
    const length = Math.hypot(dx - x, dy - y), off = 0.36 / length;
    found.push(element("line", { x1: x + 0.5 + (dx - x) * off, y1: y + 0.5 + (dy - y) * off,
      x2: dx + 0.5 - (dx - x) * off, y2: dy + 0.5 - (dy - y) * off }));
  }));
  return found;
}

function squareWords(block, step, cell, index) {
  const shown = cell.violated ? `${cell.digit || `“${cell.text}”`} where the given is ${cell.given}`
    : cell.digit || cell.given || `“${cell.text}”`;
  const facts = [shown, cell.given && !cell.violated ? "given" : told.states[cell.state]];
  if (cell.violated) facts.push("changed given");
  if (cell.clashes.size) facts.push("in conflict");
  if (cell.wrong) facts.push("wrong");
  if (step >= 0 && block.steps) {
    facts.push(`entropy ${block.entropy[Math.min(step, block.steps - 1) * block.length + cell.at].toFixed(3)} nats`);
  }
  return `Row ${Math.floor(index / 9) + 1}, column ${(index % 9) + 1}: ${facts.join(", ")}`;
}

function boardWords(block, step, cells) {
  if (step < 0) return block.filler === null ? "Noise in all cells." : "Nothing is written yet.";
  if (step >= block.steps) return block.board.verdict;
  return `${cells.filter((cell) => cell.accepted).length} of 81 cells accepted.`;
}

// [class of a sample, what stands in it, what it means]
const BOARD_LEGEND = [["s4 given", "7", "given"], ["s0", "ø", "noise"], ["s1", "7", "likely"], ["s2", "7", "accepted"],
  ["s3", "7", "taken back"], ["s4", "7", "settled"], ["s4 clash", "7", "in conflict"], ["s4 violated", "2", "changed given"],
  ["s4 wrong", "7", "wrong"]];
