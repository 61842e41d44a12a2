# Questions answered by chat and by completions in batches of tokens
set -e
export OPENAI_API_KEY="$KEY" HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
mkdir tasks
for word in robot canvas lamp stone; do
  echo "{\"question\": \"Reverse the word $word.\", \"answer\": \"$(echo "$word" | rev)\"}"
done > tasks/words.json
cat > tasks/words.yaml <<YAML
task: words
dataset_path: json
dataset_kwargs: { data_files: { test: "$PWD/tasks/words.json" } }
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: { until: ["\n"], max_gen_toks: 20, do_sample: false }
metric_list: [{ metric: exact_match, aggregation: mean, higher_is_better: true }]
YAML
lm_eval run --include_path tasks --tasks words --output_path chat --apply_chat_template \
  --model local-chat-completions --model_args "model=small,base_url=$SMALL/v1/chat/completions,num_concurrent=2"
lm_eval run --include_path tasks --tasks words --output_path text --batch_size 2 \
  --model local-completions --model_args "model=small,base_url=$SMALL/v1/completions,tokenizer=$WEIGHTS"
cat > read.py <<PYTHON
import json, pathlib
found = {name: json.loads(next(pathlib.Path(name).rglob("results*.json")).read_text())["results"]["words"] for name in ("chat", "text")}
assert found["chat"]["exact_match,none"] >= 0.5, found
assert 0 <= found["text"]["exact_match,none"] <= 1, found
PYTHON
python read.py
