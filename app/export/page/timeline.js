// The line of frames: mean entropy, cells taken back and block ends over time, and the blocks as a film strip.

const timeline = {
  build(go) {
    const curve = byId("curve");
    const width = Math.max(frames.length - 1, 1);
    curve.setAttribute("viewBox", `0 0 ${width} 44`);
    const means = frames.map((frame) => figures(blocks[frame.block], frame.step));
    const most = Math.max(...means.map((each) => each.entropy), 1e-6);
    const lines = blocks.map((_, index) => frames.map((frame, place) => [frame, place])
      .filter(([frame]) => frame.block === index && frame.step >= 0)
      .map(([, place]) => `${place},${(41 - 38 * means[place].entropy / most).toFixed(2)}`).join(" "));
    curve.append(...lines.map((points) => element("polyline", { class: "line", points })));
    frames.forEach((frame, place) => {
      const block = blocks[frame.block];
      const takenBack = frame.step >= 0 && frame.step < block.steps ? means[place].takenBack : 0;
      if (takenBack) {
        const height = 4 + 10 * Math.min(1, (8 * takenBack) / block.length);
        curve.append(element("line", { class: "taken-back", x1: place, x2: place, y1: 44, y2: 44 - height }));
      }
      if (frame.step === block.steps) curve.append(element("line", { class: "end", x1: place, x2: place, y1: 0, y2: 44 }));
    });
    frames.forEach((frame, place) => {
      if (!blocks[frame.block].begins.has(frame.step)) return;
      curve.append(element("line", { class: "round", x1: place, x2: place, y1: 36, y2: 44 }));
    });
    this.now = element("line", { class: "now", y1: 0, y2: 44 });
    curve.append(this.now);
    byId("scrubber").max = frames.length - 1;
    this.strip(go);
  },

  strip(go) {
    byId("film").hidden = blocks.length < 2 || Boolean(told.decision);
    this.buttons = blocks.map((block, index) => {
      const reasons = { converged: "converged", step_cap: "step limit" };
      const words = `${count(block.steps, "step")}${block.committed ? `, ${reasons[block.reason] || block.reason}` : ", unfinished"}`;
      const made = element("button", { type: "button" }, `Block ${index + 1}`, element("small", {}, words));
      const last = frames.reduce((found, frame, place) => (frame.block === index ? place : found), 0);
      made.addEventListener("click", () => go(last));
      return made;
    });
    byId("film").replaceChildren(...this.buttons);
  },

  show(place) {
    const frame = frames[place];
    this.now.setAttribute("x1", place);
    this.now.setAttribute("x2", place);
    const scrubber = byId("scrubber");
    scrubber.value = place;
    scrubber.setAttribute("aria-valuetext", frameWords(frame));
    this.buttons.forEach((made, index) => made.setAttribute("aria-current", index === frame.block));
  },
};

function roundWords([number, , pinned, fresh, written]) {
  return `round ${number + 1}: ${count(pinned, "token")} held, ${written} of the ${fresh} new ones written by the model`;
}

function frameWords(frame) {
  const block = blocks[frame.block];
  if (told.decision) return `read ${frame.block + 1} of ${blocks.length}${frame.step < 0 ? ", before its step: noise at the slots" : ""}`;
  const begins = block.begins.get(frame.step);
  return `${begins ? `${roundWords(begins)} · ` : ""}${stepWords(frame)}`;
}

function stepWords(frame) {
  const block = blocks[frame.block];
  const name = blocks.length > 1 ? `Block ${frame.block + 1}, ` : "";
  if (frame.step < 0) return `${name}before the first step: ${block.filler === null ? "noise" : "nothing is written"}`;
  const found = figures(block, frame.step);
  if (frame.step >= block.steps) {
    const counts = block.steps ? block.timesTakenBack.subarray((block.steps - 1) * block.length).subarray(0, found.count) : [];
    return `${name}finished after ${count(block.steps, "step")}, ${found.count} of ${block.length} are text, `
      + `${counts.reduce((sum, each) => sum + each, 0)} taken back`;
  }
  if (block.filler !== null) {
    return `${name}step ${stepNumber(frame.step)}, written ${found.accepted} of ${found.count}, `
      + `${found.takenBack ? `${found.takenBack} taken back, ` : ""}mean entropy ${found.entropy.toFixed(3)} nats`;
  }
  return `${name}step ${stepNumber(frame.step)}, temperature ${block.temperature[frame.step].toFixed(2)}, accepted ${found.accepted} of `
    + `${found.count}, ${found.takenBack} taken back, mean entropy ${found.entropy.toFixed(3)} nats`;
}
