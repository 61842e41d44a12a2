# Questions by chat and by completions in batches of tokens; log-likelihoods of choices
set -e
export OPENAI_API_KEY="$KEY" HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
mkdir tasks
for word in robot canvas lamp stone; do
  echo "{\"question\": \"Reverse the word $word.\", \"answer\": \"$(echo "$word" | rev)\", \"other\": \"$word\"}"
done > tasks/words.json
cat > tasks/common <<YAML
dataset_path: json
dataset_kwargs: { data_files: { test: "$PWD/tasks/words.json" } }
test_split: test
YAML
cat tasks/common - > tasks/words.yaml <<YAML
task: words
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: { until: ["\n"], max_gen_toks: 20, do_sample: false }
metric_list: [{ metric: exact_match }]
YAML
cat tasks/common - > tasks/choices.yaml <<YAML
task: choices
output_type: multiple_choice
doc_to_text: "<|turn>user\n{{question}}<turn|>\n<|turn>model\n"
doc_to_choice: "{{[other, answer]}}"
doc_to_target: 1
target_delimiter: ""
metric_list: [{ metric: acc }]
YAML
completions="model=small,base_url=$SMALL/v1/completions,tokenizer=$WEIGHTS"
lm_eval run --include_path tasks --tasks words --output_path chat --apply_chat_template \
  --model local-chat-completions --model_args "model=small,base_url=$SMALL/v1/chat/completions,num_concurrent=2"
lm_eval run --include_path tasks --tasks words --output_path text --batch_size 2 \
  --model local-completions --model_args "$completions"
lm_eval run --include_path tasks --tasks choices --output_path choices --batch_size 2 \
  --model local-completions --model_args "$completions"
python -c '
import json, pathlib
def read(name):
    return json.loads(next(pathlib.Path(name).rglob("results*.json")).read_text())["results"]
chat, text, choices = (read(name) for name in ("chat", "text", "choices"))
assert chat["words"]["exact_match,none"] >= 0.5, chat
assert text["words"]["exact_match,none"] >= 0, text
assert choices["choices"]["acc,none"] >= 0.5, choices
'
