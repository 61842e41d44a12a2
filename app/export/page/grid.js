// The canvas as a table of cells, on the lines that its text ends with, or as a board. Knows which cell is chosen or lit,
// and nothing of time.

const LARGEST_SQUARE = 56; // pixels

const grid = {
  cells: [], places: [], columns: 0, starts: [], block: null, at: -1, chosen: -1, isBoard: false,

  build(block, isBoard) {
    if (isBoard) this.buildBoard(block);
    else this.buildTokens(block);
    byId("grid").classList.toggle("board", isBoard);
    this.isBoard = isBoard;
  },

  buildBoard(block) {
    const side = Math.max(24, Math.min(LARGEST_SQUARE, Math.floor((byId("grid").clientWidth - 36) / 9)));
    if (this.block === block && this.isBoard && this.columns === side) return;
    const starts = [...Array(9).keys()].map((row) => 9 * row);
    Object.assign(this, { columns: side, cells: [], places: block.board.positions, starts });
    const rows = starts.map((start) => element("div", { role: "row", class: "row" }, ...this.places.slice(start, start + 9)
      .map((at) => {
        const cell = element("div", { role: "gridcell", tabindex: "-1", "data-at": at });
        cell.style.width = cell.style.height = `${side}px`;
        cell.style.fontSize = `${side}px`;
        this.cells.push(cell);
        return cell;
      })));
    this.lines = element("svg", { class: "clashes", viewBox: "0 0 9 9", "aria-hidden": "true" });
    this.lines.style.width = this.lines.style.height = `${9 * side}px`;
    this.put(block, element("div", { class: "squares", role: "presentation" }, ...rows, this.lines), 9, 9);
  },

  put(block, content, rows, columns) {
    const hadFocus = byId("grid").contains(document.activeElement);
    this.block = block;
    if (Array.isArray(content)) byId("grid").replaceChildren(...content);
    else byId("grid").replaceChildren(content);
    byId("grid").setAttribute("aria-rowcount", rows);
    byId("grid").setAttribute("aria-colcount", columns);
    const home = this.cells[this.places.indexOf(this.chosen)] || this.cells[0];
    if (home) home.tabIndex = 0;
    if (hadFocus && home) home.focus();
  },

  buildTokens(block) {
    const width = this.cellWidth(block);
    const room = byId("grid").clientWidth - 32;
    const columns = fitting(room, width, block.length);
    if (this.block === block && !this.isBoard && this.columns === columns) return;
    Object.assign(this, { columns, cells: [], places: [...Array(block.length).keys()], starts: [] });
    const rows = [], ends = new Set(block.lineEnds);
    for (let at = 0; at < block.length; at += 1) {
      const cell = element("div", { role: "gridcell", class: "cell", tabindex: "-1", "data-at": at });
      cell.style.width = `${width}px`;
      this.cells.push(cell);
      if (!at || ends.has(at - 1) || at - this.starts[this.starts.length - 1] === columns) {
        rows.push(element("div", { role: "row", class: "row" }));
        this.starts.push(at);
      }
      rows[rows.length - 1].append(cell);
    }
    byId("grid").classList.toggle("one", this.narrow);
    this.put(block, rows, rows.length, columns);
  },

  // The longest glyph of the block in either view, up to ten signs, so that nothing moves while it develops.
  cellWidth(block) {
    if (!block.longest) {
      let longest = 1;
      for (const tokens of [block.noise, block.final || [], block.argmax, block.following]) {
        for (const token of tokens) if (token !== block.filler) longest = Math.max(longest, [...glyphOf(token)[0]].length);
      }
      block.longest = Math.min(longest, 10);
    }
    this.narrow = block.longest < 2;
    return Math.ceil(block.longest * 10.3) + 12;
  },

  paint(frame, view, layer, limit, ramp) {
    const block = blocks[frame.block], isBoard = view === "board" && Boolean(block.board);
    this.build(block, isBoard);
    const base = Math.min(frame.step, block.steps - 1) * block.length;
    const squares = isBoard ? boardAt(block, frame.step) : null;
    if (isBoard) this.lines.replaceChildren(...clashLines(squares));
    byId("grid").classList.toggle("developing", isBoard && frame.step < block.steps);
    this.cells.forEach((cell, index) => {
      const at = this.places[index];
      if (isBoard) fillSquare(cell, squares[index], frame.step < block.steps);
      else this.fill(cell, block, frame.step, at, view !== "raw");
      const state = stateAt(block, frame.step, at, false);
      const isKnown = state !== PADDING && !(state === MASKED && !block.entropy[base + at]);
      const isShaded = layer === "entropy" && base >= 0 && isKnown;
      cell.classList.toggle("shaded", isShaded);
      if (isShaded) {
        const share = limit > 0 ? Math.min(1, block.entropy[base + at] / limit) : 0;
        const [shade, ink] = ramp[Math.round(share * (ramp.length - 1))];
        cell.style.setProperty("--shade", shade);
        cell.style.setProperty("--on", ink);
      }
      cell.setAttribute("aria-label", isBoard ? squareWords(block, frame.step, squares[index], index)
        : cellWords(block, frame.step, at, view !== "raw"));
      cell.setAttribute("aria-selected", at === this.chosen);
    });
    byId("verdict").hidden = !isBoard;
    if (isBoard) byId("verdict").textContent = boardWords(block, frame.step, squares);
  },

  fill(cell, block, step, at, calm) {
    const state = stateAt(block, step, at, calm);
    const [text, kind] = glyphOf(tokenAt(block, step, at, calm));
    const gone = state !== MASKED && (kind === "end" || state === PADDING);
    cell.textContent = gone || state === MASKED ? "" : text;
    cell.className = `cell s${state}${gone ? " end" : kind === "sign" && state !== MASKED ? " sign" : ""}${slots.includes(at) ? " slot" : ""}`;
  },

  choose(at) {
    this.chosen = at;
    const home = Math.max(this.places.indexOf(at), 0);
    this.cells.forEach((cell, index) => {
      cell.setAttribute("aria-selected", this.places[index] === at);
      cell.tabIndex = index === home ? 0 : -1;
    });
  },

  focus(at) {
    const cell = this.cells[this.places.indexOf(at)];
    if (cell) cell.focus();
  },

  light(at) {
    this.cells.forEach((cell, index) => cell.classList.toggle("lit", this.places[index] === at));
  },

  // The position so many columns and rows away; the same one where that would leave the grid.
  moved(at, columns, rows) {
    const here = this.places.indexOf(at);
    const row = this.starts.findLastIndex((start) => start <= here), to = row + rows;
    if (here < 0 || to < 0 || to >= this.starts.length) return at;
    const last = (to + 1 < this.starts.length ? this.starts[to + 1] : this.cells.length) - 1;
    const target = Math.min(this.starts[to] + here - this.starts[row], last) + columns;
    return target >= 0 && target < this.cells.length ? this.places[target] : at;
  },
};

function fitting(room, width, count) {
  const fit = Math.max(1, Math.min(Math.floor((room + 2) / (width + 2)), 64));
  if (fit >= count && count > 0) return count;
  if (fit < 8) return fit;
  for (let columns = fit; columns >= Math.ceil(0.75 * fit); columns -= 1) if (count % columns === 0) return columns;
  return fit - (fit % 4);
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);

// Row and column in a Sudoku, else the position on the canvas.
function cellName(block, at) {
  const cell = block.board ? block.board.positions.indexOf(at) : -1;
  return cell < 0 ? `position ${at}` : `row ${Math.floor(cell / 9) + 1}, column ${(cell % 9) + 1}`;
}

function cellWords(block, step, at, calm) {
  const state = told.states[stateAt(block, step, at, calm)];
  const isMasked = stateAt(block, step, at, calm) === MASKED;
  const words = [capital(cellName(block, at)), isMasked ? "nothing yet" : `“${spelled(tokenAt(block, step, at, calm))}”`, state];
  if (slots.includes(at)) words.push(`slot of question ${slots.indexOf(at) + 1}`);
  if (step >= 0 && block.steps) {
    const i = Math.min(step, block.steps - 1) * block.length + at;
    words.push(`entropy ${block.entropy[i].toFixed(3)} nats`, `taken back ${count(block.timesTakenBack[i], "time")}`);
  }
  return words.join(", ");
}

const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

function paintLegend(isBoard) {
  const given = blocks.some((block) => block.pinned.size || block.held.size), fits = blocks.some((block) => block.fits.size);
  const noise = blocks.some((block) => block.filler === null) || !blocks.length ? [NOISE] : [];
  const takenBack = noise.length || blocks.some((block) => block.timesTakenBack.some(Boolean)) ? [TAKEN_BACK] : [];
  const masked = blocks.some((block) => block.filler !== null) ? [MASKED] : [];
  const usual = [...noise, ...masked, CANDIDATE, ACCEPTED, ...takenBack, SETTLED, ...(given ? [GIVEN] : []),
    ...(fits ? [FITTING] : [])];
  const states = slots.length ? [NOISE, ACCEPTED, GIVEN] : usual;
  const shown = isBoard ? BOARD_LEGEND : states.map((state) => [`s${state}`, "a", told.states[state]]);
  if (slots.length) shown.push([`s${ACCEPTED} slot`, "a", "slot of a question"]);
  byId("legend").replaceChildren(...shown.map(([style, text, words]) => element("li", {},
    element("span", { class: `cell ${isBoard ? "square " : ""}${style}`, "aria-hidden": "true" },
      ...(isBoard ? [element("span", { class: "digit" }, text)] : style === `s${MASKED}` ? [] : [text])), words)));
}
