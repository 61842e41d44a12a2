// Greedy answers of llama.cpp: a JSON line {ids, tokens, penalty} in, a line {tokens, seconds} out. See drafting.py.
import { createInterface } from "node:readline";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [path, threads] = process.argv.slice(-2);
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.disabled });
const model = await llama.loadModel({ modelPath: path });
const context = await model.createContext({ contextSize: 2048, threads: Number(threads) });
const sequence = context.getSequence();

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  await sequence.clearHistory();
  const begun = performance.now();
  const seen = [...asked.ids];
  const found = [];
  const settings = { temperature: 0 };
  if (asked.penalty !== 1) settings.repeatPenalty = { penalty: asked.penalty, punishTokens: () => seen };
  for await (const token of sequence.evaluate(asked.ids, settings)) {
    if (model.isEogToken(token)) break;
    found.push(token);
    seen.push(token);
    if (found.length >= asked.tokens) break;
  }
  console.log(JSON.stringify({ tokens: found, seconds: (performance.now() - begun) / 1000 }));
}
